"""exp(z) - b z + b log b - b for counts b >= 0 with the mean exp(z): half of the Poisson deviance, 0 at z = log b.

Its derivative is exp(z) - b. Its second derivative exp(z) has no bound, so no theorem gives it a step size. Beyond z =
709.78 the loss is no float64: it is infinite there, and a rule that hears losses refuses the step. It is computed as
b (exp(u) - 1 - u) with u = z - log b, so that near its minimum it is no difference of large numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from errorfeedback.core import PerRow
from errorfeedback.problems.losses.base import Loss


@dataclass(frozen=True)
class Poisson(Loss):
    """The target is a count, or any number of at least 0.

    >>> Poisson().values(np.log([3.0, 2.0]), np.array([0.0, 2.0])).round(4).tolist()
    [3.0, 0.0]
    """

    def values(self, z: PerRow, b: PerRow) -> PerRow:
        out = np.empty_like(z)
        _values(z, b, out)
        return out

    def slopes(self, z: PerRow, b: PerRow, shares: PerRow, out: PerRow) -> None:
        _slopes(z, b, shares, out)

    def bends(self, z: PerRow, b: PerRow) -> PerRow:
        with np.errstate(over="ignore"):
            return np.exp(z)

    @property
    def typical(self) -> float:
        return 1.0  # exp(z) at the zero model

    def check(self, b: PerRow) -> None:
        wrong = np.flatnonzero(b < 0)
        if len(wrong):
            raise ValueError(f"b[{wrong[0]}] = {b[wrong[0]]:g}; the Poisson loss is for counts, which are at least 0")


@numba.njit(cache=True, nogil=True)
def _values(z: PerRow, b: PerRow, out: PerRow) -> None:
    for r in range(len(z)):
        if b[r] > 0:
            u = z[r] - np.log(b[r])
            out[r] = b[r] * (np.expm1(u) - u)
        else:
            out[r] = np.exp(z[r])


@numba.njit(cache=True, nogil=True)
def _slopes(z: PerRow, b: PerRow, shares: PerRow, out: PerRow) -> None:
    for r in range(len(z)):
        out[r] = (np.exp(z[r]) - b[r]) * shares[r]
