"""The Gamma loss z + b exp(-z) for positive targets b with the mean exp(z): its curvature has no bound, so no theorem gives
it a step size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import errorfeedback as ef


@ef.storable
@dataclass(frozen=True)
class Gamma(ef.Loss):
    def values(self, z, b):
        return z + b * np.exp(-z)

    def slopes(self, z, b, shares, out):
        np.multiply(1 - b * np.exp(-z), shares, out=out)

    def check(self, b):
        if not (b > 0).all():
            raise ValueError(f"a target is {b.min():g}; the Gamma loss is for numbers above 0")

    def floor(self, b):
        return 1 + np.log(b)
