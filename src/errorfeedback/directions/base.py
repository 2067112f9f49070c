"""What the server makes of the estimate g: the direction in which x goes, x - gamma * direction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from errorfeedback.core import Model


@dataclass(frozen=True)
class Direction(ABC):
    """Memory, if any, is a state that is handed in and out."""

    is_estimate: ClassVar[bool] = False
    """The direction is g itself: what theorems about gradient methods are about."""

    def start(self, x: Model) -> Any:
        """The memory before round 0."""
        return None

    @abstractmethod
    def __call__(self, state: Any, x: Model, g: Model) -> tuple[Model, Any]:
        """The direction at x, and the memory for the next round. Neither x nor g may be changed."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence[Direction]:
        """Instances for the conformance tests."""
