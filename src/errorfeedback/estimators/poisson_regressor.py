"""Counts across clients with scikit-learn's interface: Poisson regression with the logarithm as its link."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from errorfeedback.core import Floats
from errorfeedback.estimators.regressor import NumberEF21, numbers
from errorfeedback.estimators.value_models import Exponential, ValueModel
from errorfeedback.problems.conversation import Conversation, Seat
from errorfeedback.problems.glm import GLM

NO_BOUND = "takes first-order steps, which begin from a bound on the curvature, and the Poisson loss has none"


class EF21PoissonRegressor(NumberEF21):
    """Half of the mean Poisson deviance with a penalty: the target is a count (at least 0) whose mean is exp(score).

    k must be left at its default: it takes first-order steps, which begin from a bound on the curvature, and this loss has
    none.

    Examples
    --------
    >>> X = np.arange(6.0)[:, None]
    >>> EF21PoissonRegressor(n_clients=2, l2=0, tol=1e-10).fit(X, 2.0 ** X[:, 0]).predict([[7.0]]).round().tolist()
    [128.0]
    """

    loss = "poisson"

    @property
    def value_model(self) -> ValueModel:
        return Exponential()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def _losses(
        self, A: sparse.csr_array, y: NDArray[Any], clients: NDArray[Any], weights: Floats, seat: Seat
    ) -> Conversation[GLM]:
        if self.k is not None:
            raise ValueError(f"k = {self.k} {NO_BOUND}; leave k out")
        return super()._losses(A, counts(y), clients, weights, seat)

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """D2, the share of the deviance that the model explains: 1 - D(y, predict(X)) / D(y, mean of y)."""
        weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        return explained(self.value_model, self.decision(X)[:, 0], counts(np.asarray(y)), weights)


def explained(model: ValueModel, scores: Floats, y: Floats, weights: Floats | None) -> float:
    """1 - loss / (loss of the best constant); where that is 0, 1 for a model that is right and 0 for one that is not."""
    constant = np.full(len(y), model.score(float(np.average(y, weights=weights))))
    left, whole = (float(np.average(model.loss.values(each, y), weights=weights)) for each in (scores, constant))
    return 1.0 - left / whole if whole > 0 else float(left <= 0)


def counts(y: NDArray[Any]) -> Floats:
    """The target, refused where it is below 0."""
    y = numbers(y)
    if len(y) and y.min() < 0:
        raise ValueError(
            f"the target has {y.min():g}, and counts are at least 0; use EF21Regressor (--regression) for numbers"
        )
    return y
