"""Sparse rows for a model of q outputs: a nonzero meets the q numbers of its feature, which lie in a row. Z = A X, A_i' S.

One layout for every kind of rows: with q numbers to go through for every nonzero, what its place and its value cost to read
no longer counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from scipy import sparse

from errorfeedback.core import Floats, Integers, Lifted, Model, PerRow
from errorfeedback.problems.blocks.base import FOUR, ONE, THREE, TWO, Blocks, Fill, local_positions, position_bits
from errorfeedback.sparsity.support import Support


@dataclass(frozen=True, eq=False)
class ManyOutputs(Blocks):
    """Row r has data[indptr[r]:indptr[r+1]] at those positions among its client's features."""

    data: Floats
    positions: Integers
    indptr: Integers

    @classmethod
    def fits(cls, fill: Fill) -> bool:
        return fill.outputs > 1

    @classmethod
    def make(cls, lifted: sparse.csr_array, support: Support, rows: Integers) -> ManyOutputs:
        return cls(support, rows, lifted.data, local_positions(lifted, support.by_feature, rows), lifted.indptr)

    def forward(self, x: Model, z: PerRow, work: Lifted) -> None:
        segments = self.support.by_feature.indptr
        _forward(self.data, self.positions, self.indptr, self.rows, segments, self.features, self._matrix(x), z)

    def backward(self, s: PerRow, out: Lifted) -> None:
        segments = self.support.by_feature.indptr
        _backward(self.data, self.positions, self.indptr, self.rows, segments, s, self._matrix(out))

    def _matrix(self, numbers: Floats) -> Floats:
        """(features, outputs)."""
        return numbers.reshape(-1, self.support.outputs)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    @property
    def bytes(self) -> int:
        return self.data.nbytes + self.positions.nbytes + self.indptr.nbytes + self.features.nbytes

    @classmethod
    def describe(cls, support: Support) -> str:
        return f"sparse rows, {position_bits(support.by_feature)}-bit positions, {support.outputs} outputs"


@numba.njit(cache=True, nogil=True)
def _forward(
    data: Floats,
    positions: Integers,
    indptr: Integers,
    rows: Integers,
    segments: Integers,
    features: Integers,
    x: Floats,
    z: PerRow,
) -> None:
    """Four nonzeros at a time: z is read and written once for them."""
    for i in range(len(rows) - 1):
        mine = features[segments[i] : segments[i + 1]]
        for r in range(rows[i], rows[i + 1]):
            k, end, sums = np.uint64(indptr[r]), np.uint64(indptr[r + 1]), z[r]
            sums[:] = 0.0
            while k + THREE < end:
                a, b, c, d = data[k], data[k + ONE], data[k + TWO], data[k + THREE]
                xa, xb = x[mine[positions[k]]], x[mine[positions[k + ONE]]]
                xc, xd = x[mine[positions[k + TWO]]], x[mine[positions[k + THREE]]]
                for o in range(len(sums)):
                    sums[o] += (a * xa[o] + b * xb[o]) + (c * xc[o] + d * xd[o])
                k += FOUR
            while k < end:
                a, xa = data[k], x[mine[positions[k]]]
                for o in range(len(sums)):
                    sums[o] += a * xa[o]
                k += ONE


@numba.njit(cache=True, nogil=True)
def _backward(
    data: Floats, positions: Integers, indptr: Integers, rows: Integers, segments: Integers, s: PerRow, out: Floats
) -> None:
    for i in range(len(rows) - 1):
        g, k = out[segments[i] : segments[i + 1]], np.uint64(indptr[rows[i]])
        g[:] = 0.0
        for r in range(rows[i], rows[i + 1]):
            stop, slopes = np.uint64(indptr[r + 1]), s[r]
            while k < stop:
                a, mine = data[k], g[positions[k]]
                for o in range(len(slopes)):
                    mine[o] += a * slopes[o]
                k += ONE
