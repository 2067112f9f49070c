"""Least squares across clients with scikit-learn's interface."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import RegressorMixin

from errorfeedback.core import Floats, PerColumn
from errorfeedback.estimators.base import LinearEF21
from errorfeedback.estimators.held_out import HeldOut, HeldOutValues
from errorfeedback.problems.conversation import Conversation, Seat
from errorfeedback.problems.glm import GLM
from errorfeedback.problems.linear_models import least_squares
from errorfeedback.problems.spread import shard_of_all


class EF21Regressor(RegressorMixin, LinearEF21):  # type: ignore[misc]
    """Mean squared error with a penalty.

    Examples
    --------
    >>> X = np.arange(6.0)[:, None]
    >>> EF21Regressor(n_clients=2, l2=0).fit(X, 2 * X[:, 0] + 1).predict([[10.0]]).round(2).tolist()
    [21.0]
    """

    def _losses(
        self, A: sparse.csr_array, y: NDArray[Any], clients: NDArray[Any], weights: Floats, seat: Seat
    ) -> Conversation[GLM]:
        y = numbers(y)
        sums = np.sum((yield np.array([np.sum(weights * y), np.sum(weights)])), axis=0)
        self.constant_ = sums[:1] / sums[1]
        return (yield from shard_of_all(least_squares(A, y, clients, sample_weight=weights), seat))

    def _held_out(self, A: sparse.csr_array, y: NDArray[Any], weights: Floats, models: int) -> HeldOut:
        return HeldOutValues(A, numbers(y), weights, models)

    def _assign(self, x: PerColumn, models: int) -> None:
        super()._assign(x, models)
        self.coef_ = self.coef_[0]
        self.intercept_ = float(self.intercept_[0])

    def predict(self, X: Any) -> Floats:
        """<coef, x> + intercept."""
        return self.decision(X)[:, 0]

    def _numeric_target(self) -> bool:
        return True


def numbers(y: NDArray[Any]) -> Floats:
    """The target of a regression, refused where it is text."""
    if y.dtype.kind not in "fiub":
        raise ValueError(
            f"the target has {y.tolist()[0]!r}, and a regression predicts numbers; leave out --regression (EF21Classifier "
            "has classes), or name another target (--target)"
        )
    return y.astype(np.float64)
