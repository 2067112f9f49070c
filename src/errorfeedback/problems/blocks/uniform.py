"""Sparse rows whose entries are all the same number (one-hot data: 1): positions only, no values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from scipy import sparse

from errorfeedback.core import Floats, Integers, Lifted, Model, PerRow
from errorfeedback.problems.blocks.base import Blocks, Fill, gather, local_positions, position_bits
from errorfeedback.sparsity.support import Support


@dataclass(frozen=True, eq=False)
class Uniform(Blocks):
    """Row r has `value` at positions[indptr[r]:indptr[r+1]] of its client's segment."""

    value: Floats
    """(1,)"""
    positions: Integers
    indptr: Integers

    @classmethod
    def fits(cls, fill: Fill) -> bool:
        return fill.value is not None

    @classmethod
    def make(cls, lifted: sparse.csr_array, support: Support, rows: Integers) -> Uniform:
        return cls(support, rows, lifted.data[:1], local_positions(lifted, support, rows), lifted.indptr)

    def forward(self, x: Model, z: PerRow, work: Lifted) -> None:
        _forward(self.value, self.positions, self.indptr, self.rows, self.support.indptr, self.features, x, work, z)

    def backward(self, s: PerRow, out: Lifted) -> None:
        _backward(self.value, self.positions, self.indptr, self.rows, self.support.indptr, s, out)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.value.dtype

    @property
    def bytes(self) -> int:
        return self.positions.nbytes + self.indptr.nbytes

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
    zero = value.dtype.type(0.0)
    for i in range(len(rows) - 1):
        own = mine[segments[i] : segments[i + 1]]
        for r in range(rows[i], rows[i + 1]):
            at = positions[indptr[r] : indptr[r + 1]]
            z0, z1, z2, z3 = zero, zero, zero, zero
            whole = len(at) - len(at) % 4
            for k in range(0, whole, 4):
                z0 += own[at[k]]
                z1 += own[at[k + 1]]
                z2 += own[at[k + 2]]
                z3 += own[at[k + 3]]
            for k in range(whole, len(at)):
                z0 += own[at[k]]
            z[r] = value[0] * ((z0 + z1) + (z2 + z3))


@numba.njit(cache=True, nogil=True)
def _backward(
    value: Floats, positions: Integers, indptr: Integers, rows: Integers, segments: Integers, s: PerRow, out: Lifted
) -> None:
    for i in range(len(rows) - 1):
        g = out[segments[i] : segments[i + 1]]
        g[:] = 0.0
        for r in range(rows[i], rows[i + 1]):
            at, slope = positions[indptr[r] : indptr[r + 1]], value[0] * s[r]
            for k in range(len(at)):
                g[at[k]] += slope
