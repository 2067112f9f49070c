"""L-BFGS over estimates (Nocedal 1980; Liu and Nocedal 1989): direction = H g, H from the last pairs (`quasi_newton`),

    H0 = (s'y / y'y) I,

where g estimates the gradient of f and of the server's smooth penalty, which it adds by itself. Pairs are made between
points that a rule has accepted; a step that was refused teaches its curvature too, and the direction from where it began is
taken anew. Few-bit differences keep g fresh in every coordinate, so that y is clean; TopK's do not. Where the penalty has an
l1 part the step is to the minimum of the model with that part (`coordinate_descent`), a proximal quasi-Newton step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from errorfeedback.core import Model
from errorfeedback.directions.base import Direction, Promise
from errorfeedback.directions.quasi_newton import PLAIN, Pairs, nothing_known
from errorfeedback.directions.rehearsal import rehearse
from errorfeedback.sums import Quadratic


@dataclass(frozen=True)
class LBFGS(Direction):
    """`memory` pairs.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=40, m=5, c=4)
    >>> run = ef.solve(problem, ef.DGD(), ef.Armijo(), direction=ef.LBFGS(), rounds=60)
    >>> bool(run.history["grad_norm2"][-1] < 1e-9)
    True
    """

    adds_penalty: ClassVar[bool] = True
    knows_kinks: ClassVar[bool] = True
    memory: int = 20

    def __post_init__(self) -> None:
        check_memory(self.memory)

    def start(self, x: Model) -> Pairs:
        return nothing_known(x)

    def rehearse(self, x: Model, kinked: bool) -> None:
        rehearse(x, kinked)

    def with_l1(self, state: Pairs, l1: Model) -> Pairs:
        return replace(state, l1=l1)

    def __call__(self, state: Pairs, x: Model, g: Model) -> tuple[Model, Pairs]:
        return state.arrived(x, g, PLAIN, self.memory).aimed(PLAIN)

    def corrected(self, state: Pairs, news: Model) -> Pairs:
        return state.corrected(news)

    def refused(self, state: Pairs, x: Model, g: Model) -> tuple[Model, Pairs]:
        return state.refused(x, g, PLAIN, self.memory).aimed(PLAIN)

    def length(self, state: Pairs) -> float | None:
        return None if state.scale is None else 1.0

    def promise(self, state: Pairs, g: Model, direction: Model) -> Promise:
        return state.promised

    def quadratic(self, state: Pairs) -> Quadratic | None:
        return state.quadratic(PLAIN)

    @classmethod
    def examples(cls) -> Sequence[LBFGS]:
        return [cls(), cls(3)]


def check_memory(memory: object) -> None:
    if isinstance(memory, bool) or not isinstance(memory, int) or memory < 1:
        raise ValueError(f"memory = {memory!r}; it must be a whole number of pairs of at least 1")
