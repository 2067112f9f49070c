"""(z - b)^2, the loss of f_i(x) = (1/m)||A_i x - b_i||^2 (section 6.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from errorfeedback.core import Lifted, Model, PerRow
from errorfeedback.problems.blocks.base import Blocks
from errorfeedback.problems.losses.base import Loss


@dataclass(frozen=True)
class Squared(Loss):
    """(z - b)^2 of a prediction z and a number b.

    >>> Squared().values(np.array([0.0, 2.0]), np.array([1.0, 5.0]))
    array([1., 9.])
    """

    curvature: float = 2.0
    quadratic: bool = True

    def values(self, z: PerRow, b: PerRow) -> PerRow:
        return (z - b) ** 2

    def bends(self, z: PerRow, b: PerRow) -> PerRow:
        return np.full_like(z, 2.0)

    def slopes(self, z: PerRow, b: PerRow, shares: PerRow, out: PerRow) -> None:
        np.subtract(z, b, out=out)
        np.multiply(out, shares, out=out)
        np.multiply(out, 2.0, out=out)

    def gradients(
        self, blocks: Blocks, x: Model, b: PerRow, shares: PerRow, out: Lifted, losses: PerRow | None = None
    ) -> None:
        blocks.residual(x, shares, b, out, losses)  # a layout may make both products in one pass
