"""log sum_k exp(z_k) - z_b, the cross-entropy of p = softmax(z), for the class b of q; its derivative is p - e_b.

Its second derivative diag(p) - p p' lies between 0 and 1/2: the magnitudes in row k have the sum 2 p_k (1 - p_k), at most
1/2 (Gershgorin). Two classes attain it at z = 0, where p = (1/2, 1/2); more come near it where all but two have p near 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from errorfeedback.core import PerRow
from errorfeedback.problems.losses.base import ClassLoss


@dataclass(frozen=True)
class Softmax(ClassLoss):
    """The target is the number of the class.

    >>> Softmax(outputs=4).values(np.zeros((1, 4)), np.array([2.0])).round(4)
    array([1.3863])
    """

    curvature: float = 0.5

    @property
    def steepest(self) -> float:
        return 2.0**0.5  # ||p - e_b||, where p is all at another class

    @property
    def attained(self) -> bool:
        return self.outputs == 2

    def values(self, z: PerRow, b: PerRow) -> PerRow:
        out = np.empty_like(b, dtype=z.dtype)
        _values(z, b, out)
        return out

    def slopes(self, z: PerRow, b: PerRow, shares: PerRow, out: PerRow) -> None:
        _slopes(z, b, shares, out)


@numba.njit(cache=True, nogil=True)
def _values(z: PerRow, b: PerRow, out: PerRow) -> None:
    """The likeliest class counts as the 1 of log(1 + ...), so that a small loss has all its digits."""
    for r in range(len(z)):
        row, others = z[r], z.dtype.type(0.0)
        likeliest = row.argmax()
        top = row[likeliest]
        for k in range(len(row)):
            if k != likeliest:
                others += np.exp(row[k] - top)
        out[r] = np.log1p(others) + (top - row[int(b[r])])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _slopes(z: PerRow, b: PerRow, shares: PerRow, out: PerRow) -> None:
    """The derivative of the class itself is the sum of the others, so that nothing cancels where p is nearly 1."""
    for r in range(len(z)):
        row, slopes, mine, others = z[r], out[r], int(b[r]), z.dtype.type(0.0)
        top = row.max()
        own = np.exp(row[mine] - top)
        for k in range(len(row)):
            slopes[k] = np.exp(row[k] - top)
        slopes[mine] = 0.0
        for k in range(len(row)):
            others += slopes[k]
        share = shares[r] / (own + others)
        for k in range(len(row)):
            slopes[k] *= share
        slopes[mine] = -others * share
