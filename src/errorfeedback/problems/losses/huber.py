"""(z - b)^2 up to |z - b| = w, and 2 w |z - b| - w^2 beyond (Huber 1964): a few wild targets pull with a bounded force.

With s = min(|z - b|, w) the loss is s (2 |z - b| - s) and its derivative 2 s in the direction of z - b; its second
derivative is 2 or 0. Where no |z - b| exceeds w it is the squared loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

import numpy as np

from errorfeedback.core import PerRow
from errorfeedback.problems.losses.base import Loss


@dataclass(frozen=True)
class Huber(Loss):
    """`width`: w, in the units of the target.

    >>> Huber(width=1.0).values(np.array([0.5, 3.0]), np.zeros(2)).tolist()
    [0.25, 5.0]
    """

    curvature: float = 2.0
    width: float = 1.35

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isfinite(self.width) and self.width > 0):
            raise ValueError(f"width = {self.width}; the square must reach to a finite distance above 0 of the target")

    @property
    def attained(self) -> bool:
        return False  # no model need be within the width of all targets

    @property
    def steepest(self) -> float:
        return 2.0 * self.width

    def values(self, z: PerRow, b: PerRow) -> PerRow:
        far = np.abs(z - b)
        near = np.minimum(far, far.dtype.type(self.width))
        return near * (2.0 * far - near)

    def slopes(self, z: PerRow, b: PerRow, shares: PerRow, out: PerRow) -> None:
        np.subtract(z, b, out=out)
        np.clip(out, -self.width, self.width, out=out)
        np.multiply(out, shares, out=out)
        np.multiply(out, 2.0, out=out)

    def above(self, z: PerRow, b: PerRow) -> PerRow:
        return (2.0 * self.width / np.maximum(np.abs(z - b), self.width)).astype(z.dtype)

    def bends(self, z: PerRow, b: PerRow) -> PerRow:
        return np.where(np.abs(z - b) <= self.width, 2.0, 0.0).astype(z.dtype)
