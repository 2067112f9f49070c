"""A term R that the server adds by itself (prox-EF21): x+ = prox_{gamma R}(x - gamma g). Clients know nothing of it.

    R(x) = sum_j l1_j |x_j| + (l2_j / 2) x_j^2,
    prox_{gamma R}(v)_j = sign(v_j) max(|v_j| - gamma l1_j, 0) / (1 + gamma l2_j)

(elastic net; Zou and Hastie 2005). Z, c, r and the messages are those of f alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from errorfeedback.core import Model, PerColumn
from errorfeedback.problems.base import Problem


@dataclass(frozen=True, eq=False)
class ElasticNet:
    """`l1` and `l2`: one number for all columns of the data, or one per column.

    >>> x = np.array([3.0, -0.5])
    >>> ElasticNet(l1=1.0, l2=1.0).step(x, gamma=1.0)
    >>> x.tolist()
    [1.0, -0.0]
    """

    l1: ArrayLike = 0.0
    l2: ArrayLike = 0.0

    def __post_init__(self) -> None:
        for name in ("l1", "l2"):
            weights = np.asarray(getattr(self, name), dtype=np.float64)
            if not (np.isfinite(weights).all() and (weights >= 0).all()):
                raise ValueError(f"{name} = {getattr(self, name)}; a penalty must be finite and not negative")
            object.__setattr__(self, name, weights)

    def on(self, problem: Problem) -> ElasticNet:
        """The weights of the active features."""
        return ElasticNet(_active(problem, "l1", np.asarray(self.l1)), _active(problem, "l2", np.asarray(self.l2)))

    def value(self, x: Model) -> float:
        """R(x)."""
        smooth = np.asarray(self.l2) / 2 * x**2
        return float(np.sum(smooth if self.smooth else np.asarray(self.l1) * np.abs(x) + smooth))

    @property
    def smooth(self) -> bool:
        """Whether R has a gradient everywhere."""
        return not np.any(self.l1)

    @property
    def rough(self) -> ElasticNet:
        """Its part without a gradient."""
        return ElasticNet(self.l1)

    def rise(self, x: Model, s: Model, g: Model) -> float:
        """<g, s> + R(x + s) - R(x): what f + R gains by the step s where f has the gradient g, to first order in f."""
        half = np.asarray(self.l2) * (x + 0.5 * s)
        return float(np.sum((g + half) * s + np.asarray(self.l1) * (np.abs(x + s) - np.abs(x))))

    def slopes(self, x: Model) -> Model:
        """The gradient of its smooth part, (l2/2) x^2."""
        return Model((np.asarray(self.l2) * x).astype(x.dtype, copy=False))

    def shortest_subgradient(self, x: Model, grad: Model) -> Model:
        """Of f + R where f has this gradient: grad_j + l2_j x_j + l1_j sign(x_j), and where x_j = 0 what of grad_j is above
        l1_j.

        >>> ElasticNet(l1=1.0).shortest_subgradient(np.array([2.0, 0.0, 0.0]), np.array([-1.0, 0.5, -3.0])).tolist()
        [0.0, 0.0, -2.0]
        """
        l1, slope = np.asarray(self.l1), grad + self.slopes(x)
        left = np.sign(slope) * np.maximum(np.abs(slope) - l1, 0.0)
        return Model(np.where(x == 0, left, slope + l1 * np.sign(x)))

    def step(self, x: Model, gamma: float) -> None:
        """x = prox_{gamma R}(x), in place."""
        size = np.maximum(np.abs(x) - gamma * np.asarray(self.l1), 0.0) / (1.0 + gamma * np.asarray(self.l2))
        np.copysign(size, x, out=x)


def _active(problem: Problem, name: str, weights: PerColumn) -> Model:
    if weights.ndim and weights.shape != (problem.width,):
        raise ValueError(
            f"{name} has shape {weights.shape}; give one number, or one per column of the data, ({problem.width},)"
        )
    return Model(np.broadcast_to(weights, (problem.width,))[problem.columns])
