"""A smooth quantile loss, level * u + width * log(1 + exp(-u / width)) with u = b - z: the pinball loss where |u| is large.

Its second derivative is at most 1 / (4 width).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

import errorfeedback as ef


@ef.storable
@dataclass(frozen=True)
class Quantile(ef.Loss):
    curvature: float = 0.5
    level: float = 0.5
    width: float = 0.5

    def values(self, z, b):
        u = b - z
        return self.level * u + self.width * np.logaddexp(0, -u / self.width)

    def slopes(self, z, b, shares, out):
        np.multiply(expit((z - b) / self.width) - self.level, shares, out=out)
