"""Clients that take gradient steps of their own between two exchanges, and send how far they came in units of a gradient:

    w_i = x,   w_i = w_i - rate (grad f_i(w_i) + pull_i(w_i))  K times,   u_i = (x - w_i)/unit,   g = (1/n) sum_i u_i.

With gamma = unit the server's x - gamma g is the mean of the clients' models (`Averaging`); a client that does not own a
feature leaves it where it is. Every gradient may be over a minibatch, each step's rows keyed by their own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from typing import Self

from errorfeedback.compressors.base import Compressor
from errorfeedback.compressors.identity import Identity
from errorfeedback.core import Lifted, Point, Round, Sample
from errorfeedback.methods.minibatched import Minibatched
from errorfeedback.methods.node import Node
from errorfeedback.problems.base import Problem, is_bounded
from errorfeedback.smoothness.constants import smoothness

Pull = Callable[[Lifted], Lifted | float]


def nothing(w: Lifted) -> float:
    """No pull."""
    return 0.0


@dataclass(frozen=True)
class LocalSteps(Minibatched):
    """`rate`: the clients' own step size; None: what `natural_rate` makes of L_max, the largest of their L_i."""

    compressor: Compressor = Identity()  # noqa: RUF009  (frozen)
    rate: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate is not None and not (isfinite(self.rate) and self.rate > 0):
            raise ValueError(f"rate = {self.rate}; the clients' step size must be finite and positive")

    def suited(self, problem: Problem) -> Self:
        if self.rate is not None:
            return self
        if not is_bounded(problem):
            raise ValueError(f"{type(self).__name__} needs a rate where nothing bounds the clients' curvature; give rate=")
        return replace(self, rate=self.natural_rate(smoothness(problem).L_max))

    def natural_rate(self, L_max: float) -> float:
        """That of gradient descent on any f_i."""
        return 1 / L_max

    @property
    def pace(self) -> float:
        """`rate`, filled in."""
        assert self.rate is not None, "suited() fills rate in"
        return self.rate

    @property
    @abstractmethod
    def unit(self) -> float:
        """gamma, with which the server takes the mean of the clients' models."""

    def tuned(self, gamma: float) -> tuple[Self, float]:
        made = replace(self, rate=gamma)
        return made, made.unit

    def walk(self, node: Node, ctx: Round, steps: int, pull: Pull = nothing) -> Lifted:
        """x - w_i after so many steps from where the clients stand."""
        x = node.own()
        w = Lifted(x.copy())
        for k in range(steps):
            rows = None if self.batch is None else Sample(self.batch, ctx, draw=k)
            pulled = pull(w)
            w -= self.pace * (node.gradients(Point(own=w), rows) + pulled)
        return Lifted(x - w)


@dataclass(frozen=True)
class FixedSteps(LocalSteps):
    """K = `steps` in every round."""

    steps: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise ValueError(f"steps = {self.steps!r}; it must be a whole number of steps of at least 1")

    @property
    def unit(self) -> float:
        return self.steps * self.pace
