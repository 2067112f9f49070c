"""Sparse rows whose entries are all the same number (one-hot data: 1): positions only, no values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
from scipy import sparse

from errorfeedback.core import Floats, Integers, Lifted, Model, PerRow
from errorfeedback.machine import prefetch
from errorfeedback.problems.blocks.base import (
    AHEAD,
    FAR,
    FOUR,
    ONE,
    THREE,
    TWO,
    Blocks,
    Fill,
    direct_features,
    gather,
    local_positions,
    position_bits,
)
from errorfeedback.sparsity.support import Support


@dataclass(frozen=True, eq=False)
class EqualEntries(Blocks):
    """Row r has `value` at positions[indptr[r]:indptr[r+1]] of its client's segment."""

    value: Floats
    """(1,)"""
    positions: Integers
    indptr: Integers
    direct: Integers
    """The features of the entries (`direct_features`)."""

    @classmethod
    def fits(cls, fill: Fill) -> bool:
        return fill.value is not None

    @classmethod
    def make(cls, lifted: sparse.csr_array, support: Support, rows: Integers) -> EqualEntries:
        positions, direct = local_positions(lifted, support, rows), direct_features(lifted, support)
        return cls(support, rows, lifted.data[:1], positions, lifted.indptr, direct)

    def forward(self, x: Model, z: PerRow, work: Lifted) -> None:
        if len(self.direct):
            row_sums(self.value, self.direct, self.indptr, 0, len(z), x, z, x.nbytes >= FAR)
        else:
            _forward(self.value, self.positions, self.indptr, self.rows, self.support.indptr, self.features, x, work, z)

    def separate(self) -> EqualEntries:
        return replace(self, support=self.support.separate(), direct=self.direct[:0])

    def backward(self, s: PerRow, out: Lifted) -> None:
        _backward(self.value, self.positions, self.indptr, self.rows, self.support.indptr, s, out)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.value.dtype

    @property
    def bytes(self) -> int:
        read = self.direct if len(self.direct) else self.features
        return self.positions.nbytes + self.indptr.nbytes + read.nbytes

    @classmethod
    def describe(cls, support: Support) -> str:
        return f"sparse rows without values, {position_bits(support)}-bit positions"


@numba.njit(cache=True, nogil=True)
def _forward(
    value: Floats,
    positions: Integers,
    indptr: Integers,
    rows: Integers,
    segments: Integers,
    features: Integers,
    x: Model,
    mine: Lifted,
    z: PerRow,
) -> None:
    gather(features, x, mine)
    for i in range(len(rows) - 1):
        own = mine[segments[i] : segments[i + 1]]
        row_sums(value, positions, indptr, rows[i], rows[i + 1], own, z, False)


@numba.njit(cache=True, nogil=True)
def row_sums(
    value: Floats, places: Integers, indptr: Integers, first: int, stop: int, x: Floats, z: PerRow, far: bool
) -> None:
    """As `csr.row_products`, for entries of the same value."""
    k, last, zero = np.uint64(indptr[first]), np.uint64(len(places) - 1), value.dtype.type(0.0)
    for r in range(first, stop):
        a, b, c, d = zero, zero, zero, zero
        end = np.uint64(indptr[r + 1])
        while k + THREE < end:
            if far:
                prefetch(x, places[min(k + AHEAD, last)])
                prefetch(x, places[min(k + AHEAD + ONE, last)])
                prefetch(x, places[min(k + AHEAD + TWO, last)])
                prefetch(x, places[min(k + AHEAD + THREE, last)])
            a += x[places[k]]
            b += x[places[k + ONE]]
            c += x[places[k + TWO]]
            d += x[places[k + THREE]]
            k += FOUR
        if k + ONE < end:
            a += x[places[k]]
            b += x[places[k + ONE]]
            k += TWO
        if k < end:
            c += x[places[k]]
            k += ONE
        z[r] = value[0] * ((a + b) + (c + d))


@numba.njit(cache=True, nogil=True)
def _backward(
    value: Floats, positions: Integers, indptr: Integers, rows: Integers, segments: Integers, s: PerRow, out: Lifted
) -> None:
    for i in range(len(rows) - 1):
        g, k = out[segments[i] : segments[i + 1]], np.uint64(indptr[rows[i]])
        for p in range(len(g)):
            g[p] = 0.0
        for r in range(rows[i], rows[i + 1]):
            stop, slope = np.uint64(indptr[r + 1]), value[0] * s[r]
            while k + ONE < stop:
                g[positions[k]] += slope
                g[positions[k + ONE]] += slope
                k += TWO
            if k < stop:
                g[positions[k]] += slope
                k += ONE
