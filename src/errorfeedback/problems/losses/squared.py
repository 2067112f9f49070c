"""(z - b)^2, the loss of f_i(x) = (1/m)||A_i x - b_i||^2 (section 6.1)."""

from __future__ import annotations

from dataclasses import dataclass

from errorfeedback.core import PerRow
from errorfeedback.problems.losses.base import Loss


@dataclass(frozen=True)
class Squared(Loss):
    curvature: float = 2.0
    quadratic: bool = True

    def value(self, z: PerRow, b: PerRow) -> PerRow:
        return (z - b) ** 2

    def slope(self, z: PerRow, b: PerRow) -> PerRow:
        return 2.0 * (z - b)
