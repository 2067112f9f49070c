"""log(1 + exp(-y z)) with y in {-1, 1} (section 6.2); its second derivative is at most 1/4."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from errorfeedback.core import PerRow
from errorfeedback.problems.losses.base import Loss


@dataclass(frozen=True)
class Logistic(Loss):
    curvature: float = 0.25
    quadratic: bool = False

    def value(self, z: PerRow, b: PerRow) -> PerRow:
        return np.logaddexp(0.0, -b * z)

    def slope(self, z: PerRow, b: PerRow) -> PerRow:
        return -b * expit(-b * z)
