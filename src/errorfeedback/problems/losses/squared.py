"""(z - b)^2, the loss of f_i(x) = (1/m)||A_i x - b_i||^2 (section 6.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from errorfeedback.core import Integers, Lifted, Model, PerRow
from errorfeedback.keyed import GOLDEN, unit
from errorfeedback.problems.blocks.base import Blocks
from errorfeedback.problems.losses.base import Loss
from errorfeedback.problems.losses.dual import DualStep, Keys, Rows, add_row, first_draw, row_product


@dataclass(frozen=True)
class Squared(Loss, DualStep):
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

    def ascend(
        self, rows: Rows, ends: Integers, keys: Keys, epochs: int, weights: PerRow, b: PerRow, w: Lifted, dual: PerRow
    ) -> None:
        _ascend(rows, ends, keys, epochs, weights, b, w, dual)

    def gradients(
        self, blocks: Blocks, x: Model, b: PerRow, shares: PerRow, out: Lifted, losses: PerRow | None = None
    ) -> None:
        blocks.residual(x, shares, b, out, losses)  # a layout may make both products in one pass


@numba.njit(cache=True, nogil=True)
def _ascend(
    rows: Rows, ends: Integers, keys: Keys, epochs: int, weights: PerRow, b: PerRow, w: Lifted, dual: PerRow
) -> None:
    """u+ = 2 (b - z - q (u+ - u))."""
    for i in range(len(ends) - 1):
        state, m = first_draw(keys, i), ends[i + 1] - ends[i]
        for _ in range(epochs * m):
            state += GOLDEN
            row = ends[i] + np.int64(unit(state) * m)
            z, length = row_product(rows, row, w)
            change = (2.0 * (b[row] - z) - dual[row]) / (1.0 + 2.0 * weights[row] * length)
            add_row(rows, row, weights[row] * change, w)
            dual[row] += change
