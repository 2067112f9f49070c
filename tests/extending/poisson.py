"""The Poisson loss exp(z) - b z for counts b: its curvature has no bound, so no theorem gives it a step size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

import errorfeedback as ef


@ef.storable
@dataclass(frozen=True)
class Poisson(ef.Loss):
    def values(self, z, b):
        return np.exp(z) - b * z

    def slopes(self, z, b, shares, out):
        np.multiply(np.exp(z) - b, shares, out=out)

    def floor(self, b):
        return b - xlogy(b, b)
