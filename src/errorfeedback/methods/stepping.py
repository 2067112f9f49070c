"""Methods whose clients know the step size of all rounds, and find the estimate again in how x has moved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from errorfeedback.core import Lifted
from errorfeedback.methods.base import Method
from errorfeedback.methods.node import Node


@dataclass(frozen=True)
class StepReader(Method):
    """`gamma`: the server's step size; `solve` fills it in."""

    reads_steps: ClassVar[bool] = True
    gamma: float | None = None

    def knowing(self, gamma: float | None) -> Self:
        if gamma is None or self.gamma not in (None, gamma):
            raise ValueError(
                f"clients of {type(self).__name__} must know the step size of all rounds, and it is "
                f"{'not the same in all' if gamma is None else f'{gamma}, not {self.gamma}'}; use ef.Constant(gamma) or "
                "ef.Averaging(), and leave gamma= to them"
            )
        return replace(self, gamma=gamma)

    @property
    def known_step(self) -> float:
        """`gamma`, filled in."""
        assert self.gamma is not None, "solve() fills gamma in"
        return self.gamma

    def estimate_at(self, x: Lifted, node: Node) -> Lifted:
        """g on the clients' features, where they have come from x."""
        return Lifted((x - node.own()) / self.known_step)
