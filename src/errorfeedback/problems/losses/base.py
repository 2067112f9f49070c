"""A scalar loss of the prediction z = <a, x> of one row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from errorfeedback.core import PerRow


@dataclass(frozen=True)
class Loss(ABC):
    """z -> loss(z, b), non-negative and convex, with second derivative at most `curvature` (attained at z = 0)."""

    curvature: float
    quadratic: bool

    @abstractmethod
    def value(self, z: PerRow, b: PerRow) -> PerRow: ...

    @abstractmethod
    def slope(self, z: PerRow, b: PerRow) -> PerRow:
        """The derivative in z."""
