"""A diagonal preconditioner on the server (AdaGrad; Duchi, Hazan, Singer 2011): g_j / sqrt(sum of its squares so far)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import errorfeedback as ef


@ef.storable
@dataclass(frozen=True)
class AdaGrad(ef.Direction):
    least: float = 1e-8

    def start(self, x):
        return np.zeros_like(x)

    def __call__(self, squares, x, g):
        squares = squares + g**2
        return g / np.sqrt(squares + self.least), squares

    @classmethod
    def examples(cls):
        return [cls()]
