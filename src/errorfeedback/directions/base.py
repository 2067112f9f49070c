"""What the server makes of the estimate g: the direction in which x goes, x - gamma * direction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from errorfeedback.core import Model
from errorfeedback.problems.proximal import ElasticNet


@dataclass(frozen=True)
class Direction(ABC):
    """Memory, if any, is a state that is handed in and out."""

    is_estimate: ClassVar[bool] = False
    """The direction is g itself: what theorems about gradient methods are about."""
    adds_penalty: ClassVar[bool] = False
    """g has the gradient of the server's smooth penalty in it, in place of a proximal step after it."""

    def check(self, prox: ElasticNet | None) -> None:
        """Raise where the direction does not know what to do with the server's penalty."""
        if self.adds_penalty and prox is not None and not prox.smooth:
            raise ValueError(
                f"{type(self).__name__} adds the gradient of the penalty, and l1 has none at 0; use ef.Steepest() with l1"
            )

    def start(self, x: Model) -> Any:
        """The memory before round 0."""
        return None

    @abstractmethod
    def __call__(self, state: Any, x: Model, g: Model) -> tuple[Model, Any]:
        """The direction at x, and the memory for the next round. Neither x nor g may be changed."""

    def refused(self, state: Any, x: Model, g: Model) -> tuple[Model | None, Any]:
        """A rule has refused the step to x, where the estimate is g: a better direction from where the step began, or None
        where the last one stays."""
        return None, state

    def length(self, state: Any) -> float | None:
        """The step size that the direction is made for; None where it does not know."""
        return None

    def quadratic(self, state: Any) -> Callable[[Model], float] | None:
        """v -> v' B v, the curvature that the direction believes in, where it has a model of it."""
        return None

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence[Direction]:
        """Instances for the conformance tests."""
