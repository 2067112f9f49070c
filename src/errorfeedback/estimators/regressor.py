"""Least squares across clients with scikit-learn's interface."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import RegressorMixin

from errorfeedback.core import Floats
from errorfeedback.estimators.base import Held, LinearEF21, Watch
from errorfeedback.problems.glm import least_squares
from errorfeedback.problems.spread import agreed
from errorfeedback.problems.together import ALONE
from errorfeedback.records.checkpoint import Checkpoint
from errorfeedback.runtime.local import Engine


class EF21Regressor(RegressorMixin, LinearEF21):  # type: ignore[misc]
    """Mean squared error with a penalty.

    >>> X = np.arange(6.0)[:, None]
    >>> EF21Regressor(n_clients=2, l2=0).fit(X, 2 * X[:, 0] + 1).predict([[10.0]]).round(2).tolist()
    [21.0]
    """

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        watch: Watch | None = None,
        valid: Held | None = None,
        engine: Engine | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Self:
        """`groups` names the client of each row. `watch` sees every recorded row of the history. With `valid`
        (held-out rows, their targets) the run stops when the loss on them has stopped falling, and the model is the one
        with the lowest. With `engine=ef.MPI()` every rank gives the rows of its own clients. A run that is in the folder of
        `checkpoint` already is gone on with."""
        X, y, weights, clients = self._rows(X, y, sample_weight, groups)
        held = self._held(valid)
        if self.fit_intercept:
            X = sparse.csr_array(sparse.hstack([X, np.ones((X.shape[0], 1))], format="csr"))
        problem = agreed(least_squares(X, y, clients, sample_weight=weights), ALONE if engine is None else engine.together)
        self._train(problem, [X.shape[1] - 1] if self.fit_intercept else [], 1, watch, held, engine, checkpoint)
        self.coef_ = self.coef_[0]
        self.intercept_ = float(self.intercept_[0])
        return self

    def predict(self, X: Any) -> Floats:
        """<coef, x> + intercept."""
        return self.decision(X)[:, 0]

    def _judged(self, X: Any, y: ArrayLike) -> tuple[float, float]:
        """Mean squared error and R^2."""
        return float(np.mean((self.predict(X) - np.asarray(y)) ** 2)), float(self.score(X, y))

    def _numeric_target(self) -> bool:
        return True
