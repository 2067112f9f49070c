"""From numbers to a linear model and back: the loss of a score, and what the score says the target is on average."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import inf, log

import numpy as np

from errorfeedback.core import Floats
from errorfeedback.problems.losses.base import Loss
from errorfeedback.problems.losses.poisson import Poisson
from errorfeedback.problems.losses.squared import Squared


@dataclass(frozen=True)
class ValueModel(ABC):
    """`loss` is one of a score and a target."""

    loss: Loss

    @abstractmethod
    def predicted(self, scores: Floats) -> Floats:
        """The target that is expected of rows with these scores."""

    @abstractmethod
    def score(self, expected: float) -> float:
        """The score that says so."""


@dataclass(frozen=True)
class Identical(ValueModel):
    """The score is what is expected."""

    loss: Loss = field(default_factory=Squared)

    def predicted(self, scores: Floats) -> Floats:
        return scores

    def score(self, expected: float) -> float:
        return expected


@dataclass(frozen=True)
class Exponential(ValueModel):
    """exp(score) is what is expected.

    >>> Exponential().predicted(np.array([0.0, 800.0])).tolist()
    [1.0, inf]
    """

    loss: Loss = field(default_factory=Poisson)

    def predicted(self, scores: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return np.exp(scores)

    def score(self, expected: float) -> float:
        return log(expected) if expected > 0 else -inf
