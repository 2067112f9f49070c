"""sum_k log(1 + exp(-y_k z_k)) with y_b = 1 for the class b of q, and -1 for the others: a logistic loss for every class.

The classes' models do not meet: what is minimised is the sum of q problems of two classes. The second derivative is
diagonal, with entries p (1 - p) of at most 1/4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np

from errorfeedback.core import PerRow
from errorfeedback.problems.losses.base import ClassLoss


@dataclass(frozen=True)
class OneAgainstRest(ClassLoss):
    """The target is the number of the class.

    >>> OneAgainstRest(outputs=4).values(np.zeros((1, 4)), np.array([2.0])).round(4)
    array([2.7726])
    """

    curvature: float = 0.25

    @property
    def steepest(self) -> float:
        return self.outputs**0.5

    def values(self, z: PerRow, b: PerRow) -> PerRow:
        own = np.take_along_axis(z, b.astype(np.int64)[:, None], axis=1)[:, 0]
        return np.logaddexp(0.0, z).sum(axis=1, dtype=z.dtype) - own

    def slopes(self, z: PerRow, b: PerRow, shares: PerRow, out: PerRow) -> None:
        _slopes(z, b, shares, out)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _slopes(z: PerRow, b: PerRow, shares: PerRow, out: PerRow) -> None:
    one = z.dtype.type(1.0)
    for r in range(len(z)):
        row, slopes, mine = z[r], out[r], int(b[r])
        own = row[mine]
        for k in range(len(row)):
            slopes[k] = shares[r] / (one + np.exp(-row[k]))
        slopes[mine] = -shares[r] / (one + np.exp(own))
