"""Logistic regression, or a linear support vector machine, across clients, for two classes or more, with scikit-learn's
interface.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import type_of_target

from errorfeedback.core import Floats
from errorfeedback.estimators.base import LinearEF21
from errorfeedback.estimators.class_models import LOGISTIC, LOSSES, MULTI_CLASS, MULTINOMIAL, ClassModel, class_model
from errorfeedback.estimators.class_weight import ClassWeight, class_weights
from errorfeedback.estimators.held_out import HeldOutClasses
from errorfeedback.estimators.parameters import RULES, OneOf, Rule, SharedParameters
from errorfeedback.problems.conversation import Conversation, Seat
from errorfeedback.problems.glm import GLM
from errorfeedback.problems.spread import shard_of_all

MANY = 0.25
"""A target of which more than this share is distinct has no classes."""
FEW_ROWS = 20
"""Of so few rows nothing can be said."""


def _has_probabilities(model: EF21Classifier) -> bool:
    """Whether its loss is that of a probability; scikit-learn hides `predict_proba` otherwise."""
    if not LOSSES[model.loss].probable:
        raise AttributeError(f"a model with the loss {model.loss!r} has no probabilities; use decision_function")
    return True


class EF21Classifier(ClassifierMixin, LinearEF21):  # type: ignore[misc]
    """Logistic loss; for more than two classes multinomial, with one model of features x classes.

    Parameters
    ----------
    loss : {"logistic", "squared_hinge"}, default="logistic"
        What is minimised: minus the log-likelihood of logistic regression, or the squared hinge of a linear support vector
        machine, which has no probabilities and takes more than two classes with multi_class="ovr" only.
    multi_class : {"multinomial", "ovr"}, default="multinomial"
        What more than two classes are: one model whose probabilities sum to 1 (softmax), or a model of two classes for
        each, one against the rest, all trained in the same rounds.
    class_weight : dict, "balanced" or None, default=None
        What a row of each class counts, as scikit-learn means it: a dict (1 for what it does not name), or "balanced", with
        which all classes weigh the same.

    Attributes
    ----------
    classes_ : ndarray
        The classes, sorted.
    multi_class_ : str
        What more than two classes were taken for.
    class_weight_ : ndarray
        What a row of every class counts.

    Examples
    --------
    >>> X, y = np.eye(6), ["a", "b", "c", "a", "b", "c"]
    >>> EF21Classifier(n_clients=2).fit(X, y).predict(X[:3]).tolist()
    ['a', 'b', 'c']
    """

    classes_: NDArray[Any]
    multi_class_: str
    class_weight_: Floats
    rules: ClassVar[dict[str, Rule]] = RULES | {
        "loss": OneOf(tuple(LOSSES)),
        "multi_class": OneOf(MULTI_CLASS),
        "class_weight": ClassWeight(),
    }

    def __init__(
        self,
        *,
        loss: str = LOGISTIC,
        multi_class: str = MULTINOMIAL,
        class_weight: str | dict[Any, float] | None = None,
        **shared: Unpack[SharedParameters],
    ) -> None:
        super().__init__(**shared)
        self.loss = loss
        self.multi_class = multi_class
        self.class_weight = class_weight

    def _losses(
        self, A: sparse.csr_array, y: NDArray[Any], clients: NDArray[Any], weights: Floats, seat: Seat
    ) -> Conversation[GLM]:
        _check_classes(y)
        known = self.classes_ if self.warm_start and "classes_" in vars(self) else None
        self.classes_ = np.unique(np.concatenate((yield np.unique(y))))
        if known is not None and not np.array_equal(known, self.classes_):
            raise ValueError(f"warm_start: the classes were {known}, and are {self.classes_}; set warm_start=False")
        count = len(self.classes_)
        if count < 2:
            raise ValueError(f"y has one class only ({self.classes_[0]}); a classifier needs at least two")
        self.multi_class_, code = self.multi_class, np.searchsorted(self.classes_, y)
        kind = self._class_model
        rows = np.asarray(np.sum((yield np.bincount(code, weights, minlength=count)), axis=0))
        self.class_weight_ = class_weights(self.class_weight, self.classes_, rows)
        self.constant_ = rows * self.class_weight_ / np.sum(rows * self.class_weight_)
        rows_of_mine = kind.problem(A, code, count, clients, weights * self.class_weight_[code])
        return (yield from shard_of_all(rows_of_mine, seat))

    @property
    def _class_model(self) -> ClassModel:
        return class_model(self.loss, self.multi_class_, len(self.classes_))

    def _held_out(self, A: sparse.csr_array, y: NDArray[Any], weights: Floats, models: int) -> HeldOutClasses:
        unknown = np.setdiff1d(y, self.classes_).tolist()
        if unknown:
            raise ValueError(f"the validation data has the class {unknown[0]!r}, which the training data has not")
        code = np.searchsorted(self.classes_, y)
        return HeldOutClasses(A, code, weights * self.class_weight_[code], models, kind=self._class_model)

    def decision_function(self, X: Any) -> Floats:
        """<coef, x> + intercept: one number per row for two classes, else one per class."""
        scores = self.decision(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely class."""
        return self.labels(self.decision(X))

    def labels(self, scores: Floats) -> NDArray[Any]:
        """The classes of rows with these scores (`decision`)."""
        if len(self.classes_) == 2:
            return self.classes_[(scores[:, 0] > 0).astype(np.int64)]
        return self.classes_[scores.argmax(axis=1)]

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Floats:
        """(rows, classes): the logistic of the scores; for more than two classes their softmax (or, one against the rest,
        their logistic, divided by its sum)."""
        p = self.probabilities(self.decision(X))
        assert p is not None, "the method is there where they are"
        return p

    def probabilities(self, scores: Floats) -> Floats | None:
        """The probabilities of rows with these scores (`decision`); None where the loss has none."""
        return self._class_model.probabilities(scores)


def _check_classes(y: NDArray[Any]) -> None:
    """What hardly ever comes twice is measured (or is a name), and no class."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of some versions, about what is refused below
        kind, distinct = type_of_target(y, input_name="y"), np.unique(y)
    examples = ", ".join(map(str, distinct[:3].tolist()))
    fix = "for a number use --regression (EF21Regressor); is it the right target (--target)?"
    if kind not in ("binary", "multiclass"):
        raise ValueError(f"Unknown label type: {kind}: the target has values such as {examples}, not classes; {fix}")
    if len(y) > FEW_ROWS and len(distinct) > MANY * len(y):
        raise ValueError(f"the target has {len(distinct)} distinct values ({examples}, ...) in {len(y)} rows; {fix}")
