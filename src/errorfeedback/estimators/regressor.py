"""Regression across clients with scikit-learn's interface: least squares, or Huber's loss where some targets are wild."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import RegressorMixin

from errorfeedback.core import Floats, PerColumn
from errorfeedback.estimators.base import LinearEF21
from errorfeedback.estimators.held_out import HeldOutValues
from errorfeedback.estimators.parameters import RULES, Above, OneOf, Rule, SharedParameters
from errorfeedback.estimators.value_models import Identical, ValueModel
from errorfeedback.problems.conversation import Conversation, Seat
from errorfeedback.problems.glm import GLM
from errorfeedback.problems.linear_models import glm
from errorfeedback.problems.losses.base import Loss
from errorfeedback.problems.losses.huber import Huber
from errorfeedback.problems.losses.squared import Squared
from errorfeedback.problems.spread import shard_of_all

LOSSES: dict[str, Callable[[float], Loss]] = {
    "squared": lambda width: Squared(),
    "huber": lambda width: Huber(width=width),
}
"""From the width of the square; the first is the default."""


class NumberEF21(RegressorMixin, LinearEF21):  # type: ignore[misc]
    """What models of a number share."""

    @property
    @abstractmethod
    def value_model(self) -> ValueModel:
        """The loss, and what a score says."""

    def _losses(
        self, A: sparse.csr_array, y: NDArray[Any], clients: NDArray[Any], weights: Floats, seat: Seat
    ) -> Conversation[GLM]:
        y = numbers(y)
        sums = np.sum((yield np.array([np.sum(weights * y), np.sum(weights)])), axis=0)
        self.constant_ = sums[:1] / sums[1]
        return (yield from shard_of_all(glm(A, y, clients, self.value_model.loss, sample_weight=weights), seat))

    def _held_out(self, A: sparse.csr_array, y: NDArray[Any], weights: Floats, models: int) -> HeldOutValues:
        return HeldOutValues(A, numbers(y), weights, models, kind=self.value_model)

    def become(self, x: PerColumn, models: int) -> None:
        super().become(x, models)
        self.coef_ = self.coef_[0]
        self.intercept_ = float(self.intercept_[0])

    def predict(self, X: Any) -> Floats:
        """What is expected: <coef, x> + intercept, or for counts its exponential."""
        return self.value_model.predicted(self.decision(X)[:, 0])

    def _numeric_target(self) -> bool:
        return True


class EF21Regressor(NumberEF21):
    """Mean squared error with a penalty.

    Parameters
    ----------
    loss : {"squared", "huber"}, default="squared"
        What is minimised: the squared error, or that up to huber_width and linear beyond, so that a few wild targets count
        for little.
    huber_width : float, default=1.35
        With loss="huber": errors up to this are squared, in the units of the target.

    Examples
    --------
    >>> X = np.arange(6.0)[:, None]
    >>> EF21Regressor(n_clients=2, l2=0).fit(X, 2 * X[:, 0] + 1).predict([[10.0]]).round(2).tolist()
    [21.0]
    """

    rules: ClassVar[dict[str, Rule]] = RULES | {"loss": OneOf(tuple(LOSSES)), "huber_width": Above(0)}

    def __init__(self, *, loss: str = "squared", huber_width: float = 1.35, **shared: Unpack[SharedParameters]) -> None:
        super().__init__(**shared)
        self.loss = loss
        self.huber_width = huber_width

    @property
    def value_model(self) -> ValueModel:
        return Identical(LOSSES[self.loss](self.huber_width))


def numbers(y: NDArray[Any]) -> Floats:
    """The target of a regression, refused where it is text."""
    if y.dtype.kind not in "fiub":
        raise ValueError(
            f"the target has {y.tolist()[0]!r}, and a regression predicts numbers; leave out --regression (EF21Classifier "
            "has classes), or name another target (--target)"
        )
    return y.astype(np.float64)
