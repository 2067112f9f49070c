"""Clients that take gradient steps of their own between two exchanges, and send how far they came in units of a gradient:

    w_i = x,   w_i = w_i - rate (grad f_i(w_i) + pull_i(w_i))  K times,   u_i = (x - w_i)/unit,   g = (1/n) sum_i u_i.

With gamma = unit the server's x - gamma g is the mean of the clients' models (`Averaging`); a client that does not own a
feature leaves it where it is. Every gradient may be over a minibatch, each step's rows keyed by their own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from errorfeedback.compressors.base import Compressor
from errorfeedback.compressors.identity import Identity
from errorfeedback.core import Lifted, Point, Round, Sample
from errorfeedback.methods.minibatched import Minibatched
from errorfeedback.methods.node import Node

Pull = Callable[[Lifted], Lifted | float]


def nothing(w: Lifted) -> float:
    """No pull."""
    return 0.0


@dataclass(frozen=True)
class LocalSteps(Minibatched):
    """`rate`: the clients' own step size."""

    compressor: Compressor = Identity()  # noqa: RUF009  (frozen)
    rate: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isfinite(self.rate) and self.rate > 0):
            raise ValueError(f"rate = {self.rate}; the clients' step size must be finite and positive")

    @property
    @abstractmethod
    def unit(self) -> float:
        """gamma, with which the server takes the mean of the clients' models."""

    def walk(self, node: Node, ctx: Round, steps: int, pull: Pull = nothing) -> Lifted:
        """x - w_i after so many steps from where the clients stand."""
        x = node.own()
        w = Lifted(x.copy())
        for k in range(steps):
            rows = None if self.batch is None else Sample(self.batch, ctx, draw=k)
            pulled = pull(w)
            w -= self.rate * (node.gradients(Point(own=w), rows) + pulled)
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
        return self.steps * self.rate
