"""The Huber loss: z - b squared up to `width`, and growing like its absolute value beyond; its curvature is at most 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import errorfeedback as ef


@ef.storable
@dataclass(frozen=True)
class Huber(ef.Loss):
    curvature: float = 1.0
    width: float = 1.0

    def values(self, z, b):
        far = np.abs(z - b)
        return np.where(far <= self.width, far**2 / 2, self.width * (far - self.width / 2))

    def slopes(self, z, b, shares, out):
        np.multiply(np.clip(z - b, -self.width, self.width), shares, out=out)
