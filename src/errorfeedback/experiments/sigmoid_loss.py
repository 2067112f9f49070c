"""The nonconvex loss of MARINA's experiments (Gorbunov et al. 2021, section 5): with y = -1 or 1 and s = 1/(1 + exp(y z)),

    (1 - 1/(1 + exp(-y z)))^2 = s^2,   its derivative -2 y s^2 (1 - s),   its second one s^2 (1 - s)(4 - 6 s),

which is largest at s = (15 - sqrt(33))/24 and least, with a smaller size, at s = (15 + sqrt(33))/24.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.special import expit

from errorfeedback import api as ef
from errorfeedback.core import PerRow
from errorfeedback.data.known import find
from errorfeedback.experiments.recipes import ProblemRecipe
from errorfeedback.problems.base import Problem
from errorfeedback.problems.losses.base import Loss


def second(s: float) -> float:
    """The second derivative."""
    return s**2 * (1 - s) * (4 - 6 * s)


@dataclass(frozen=True)
class SquaredSigmoid(Loss):
    """The probability that the model gives to the wrong label, squared.

    >>> SquaredSigmoid().values(np.array([0.0, 40.0]), np.ones(2)).round(9).tolist()
    [0.25, 0.0]
    """

    curvature: float = second((15 - sqrt(33)) / 24)

    @property
    def convex(self) -> bool:
        return False

    @property
    def attained(self) -> bool:
        return False

    @property
    def steepest(self) -> float:
        return 8 / 27

    def values(self, z: PerRow, b: PerRow) -> PerRow:
        return np.square(expit(-b * z))

    def slopes(self, z: PerRow, b: PerRow, shares: PerRow, out: PerRow) -> None:
        wrong = expit(-b * z)
        np.multiply(-2.0 * b * wrong**2 * (1.0 - wrong), shares, out=out)


@dataclass(frozen=True)
class SigmoidRegression(ProblemRecipe):
    """That loss without an intercept or a penalty, on n clients with equal parts of the shuffled rows."""

    name: str
    n: int
    seed: int

    @property
    def slug(self) -> str:
        return f"{self.name}-sigmoid-n{self.n}"

    def check(self) -> None:
        find(self.name)

    def make(self) -> Problem:
        A, y = ef.load(self.name)
        labels = np.where(y == np.max(y), 1.0, -1.0)
        return ef.glm(A, labels, clients=ef.Shuffled(self.n, seed=self.seed), loss=SquaredSigmoid())
