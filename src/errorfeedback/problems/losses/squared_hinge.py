"""max(0, 1 - y z)^2 with y in {-1, 1}: the loss of a linear support vector machine (L2-SVM, as LIBLINEAR has it).

Its derivative is -2 y max(0, 1 - y z); its second derivative is 2 where y z < 1, as it is for all rows at the zero model,
and 0 beyond the margin.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from errorfeedback.core import PerRow
from errorfeedback.problems.losses.base import Loss


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """The target is -1 or 1.

    >>> SquaredHinge().values(np.array([-1.0, 0.5, 2.0]), np.ones(3)).tolist()
    [4.0, 0.25, 0.0]
    """

    curvature: float = 2.0

    def values(self, z: PerRow, b: PerRow) -> PerRow:
        return np.square(np.maximum(1.0 - b * z, 0.0))

    def slopes(self, z: PerRow, b: PerRow, shares: PerRow, out: PerRow) -> None:
        np.multiply(z, b, out=out)
        np.subtract(1.0, out, out=out)
        np.maximum(out, 0.0, out=out)  # what is missing to the margin
        np.multiply(out, b, out=out)
        np.multiply(out, shares, out=out)
        np.multiply(out, -2.0, out=out)

    def bends(self, z: PerRow, b: PerRow) -> PerRow:
        return np.where(b * z < 1.0, 2.0, 0.0).astype(z.dtype)

    def check(self, b: PerRow) -> None:
        wrong = np.flatnonzero(np.abs(b) != 1)
        if len(wrong):
            raise ValueError(f"b[{wrong[0]}] = {b[wrong[0]]:g}; targets are -1 or 1 (ef.squared_hinge takes any two labels)")
