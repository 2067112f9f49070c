"""max(0, 1 - y z)^2 with y in {-1, 1}: the loss of a linear support vector machine (L2-SVM, as LIBLINEAR has it).

Its derivative is -2 y max(0, 1 - y z); its second derivative is 2 where y z < 1, as it is for all rows at the zero model,
and 0 beyond the margin. For q classes, each against the rest, it is the sum over the classes, with y = 1 for the row's own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from errorfeedback.core import PerRow
from errorfeedback.problems.losses.base import ClassLoss, Loss


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """max(0, 1 - y z)^2 of two classes; the target y is -1 or 1.

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


@dataclass(frozen=True)
class HingeAgainstRest(ClassLoss):
    """The same for every class against the rest; the target is the number of the class.

    >>> HingeAgainstRest(outputs=3).values(np.array([[2.0, -1.0, 0.0]]), np.zeros(1)).tolist()
    [1.0]
    """

    curvature: float = 2.0

    def values(self, z: PerRow, b: PerRow) -> PerRow:
        return np.square(self._missing(z, b)).sum(axis=1, dtype=z.dtype)

    def slopes(self, z: PerRow, b: PerRow, shares: PerRow, out: PerRow) -> None:
        missing = self._missing(z, b)
        np.multiply(missing, 2.0 * shares[:, None], out=out)
        own = np.arange(len(b)), b.astype(np.int64)
        out[own] = -out[own]

    def _missing(self, z: PerRow, b: PerRow) -> PerRow:
        """max(0, 1 - y z): what is missing to the margin."""
        margins = -z
        own = np.arange(len(b)), b.astype(np.int64)
        margins[own] = z[own]
        return np.maximum(1.0 - margins, 0.0)
