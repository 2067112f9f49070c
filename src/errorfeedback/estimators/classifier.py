"""Logistic regression across clients, for two classes or more, with scikit-learn's interface."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from errorfeedback.core import Floats
from errorfeedback.estimators.base import Held, LinearEF21, Watch
from errorfeedback.estimators.training import one_against_rest
from errorfeedback.problems.together import ALONE
from errorfeedback.records.checkpoint import Checkpoint
from errorfeedback.runtime.local import Engine


class EF21Classifier(ClassifierMixin, LinearEF21):  # type: ignore[misc]
    """Logistic loss; more than two classes are trained one against the rest, together in the same rounds.

    >>> X, y = np.eye(6), ["a", "b", "c", "a", "b", "c"]
    >>> EF21Classifier(n_clients=2).fit(X, y).predict(X[:3]).tolist()
    ['a', 'b', 'c']
    """

    classes_: NDArray[Any]

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
        check_classification_targets(y)
        known = self.classes_ if self.warm_start and "classes_" in vars(self) else None
        together = ALONE if engine is None else engine.together
        self.classes_ = np.unique(np.concatenate(together.all(np.unique(y))))
        if known is not None and not np.array_equal(known, self.classes_):
            raise ValueError(f"warm_start: the classes were {known}, and are {self.classes_}; set warm_start=False")
        if len(self.classes_) < 2:
            raise ValueError(f"y has one class only ({self.classes_[0]}); a classifier needs at least two")
        held = self._held(valid)
        unknown = [] if held is None else np.setdiff1d(np.asarray(held[1]), self.classes_).tolist()
        if unknown:
            raise ValueError(f"the validation data has the class {unknown[0]!r}, which the training data has not")
        count = len(self.classes_)
        code = np.searchsorted(self.classes_, y)
        problem, free = one_against_rest(
            X, code, count, clients, intercept=self.fit_intercept, weights=weights, together=together
        )
        return self._train(problem, free, 1 if count == 2 else count, watch, held, engine, checkpoint)

    def _judged(self, X: Any, y: ArrayLike) -> tuple[float, float]:
        """Log loss and accuracy."""
        p = np.clip(self.predict_proba(X), 1e-15, 1.0)
        code = np.searchsorted(self.classes_, y)
        return float(-np.mean(np.log(p[np.arange(len(p)), code]))), float(self.score(X, y))

    def decision_function(self, X: Any) -> Floats:
        """<coef, x> + intercept: one number per row for two classes, else one per class."""
        scores = self.decision(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely class."""
        scores = self.decision(X)
        if len(self.classes_) == 2:
            return self.classes_[(scores[:, 0] > 0).astype(np.int64)]
        return self.classes_[scores.argmax(axis=1)]

    def predict_proba(self, X: Any) -> Floats:
        """(rows, classes): the logistic of the scores; for more than two classes normalised to 1."""
        p = expit(self.decision(X))
        if len(self.classes_) == 2:
            return np.column_stack([1 - p[:, 0], p[:, 0]])
        total = p.sum(axis=1, keepdims=True)
        return np.where(total > 0, p / np.where(total > 0, total, 1.0), 1.0 / p.shape[1])
