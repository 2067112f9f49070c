"""Compressed sparse rows with 16- or 32-bit positions within the client's segment."""

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
class CSR(Blocks):
    """Row r has data[indptr[r]:indptr[r+1]] at those positions of its client's segment."""

    data: Floats
    positions: Integers
    indptr: Integers

    @classmethod
    def fits(cls, fill: Fill) -> bool:
        return True

    @classmethod
    def make(cls, lifted: sparse.csr_array, support: Support, rows: Integers) -> CSR:
        return cls(support, rows, lifted.data, local_positions(lifted, support, rows), lifted.indptr)

    def forward(self, x: Model, z: PerRow, work: Lifted) -> None:
        _forward(self.data, self.positions, self.indptr, self.rows, self.support.indptr, self.features, x, work, z)

    def backward(self, s: PerRow, out: Lifted) -> None:
        _backward(self.data, self.positions, self.indptr, self.rows, self.support.indptr, s, out)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    @property
    def bytes(self) -> int:
        return self.data.nbytes + self.positions.nbytes + self.indptr.nbytes

    @classmethod
    def describe(cls, support: Support) -> str:
        return f"sparse rows, {position_bits(support)}-bit positions"


@numba.njit(cache=True, nogil=True)
def _forward(
    data: Floats,
    positions: Integers,
    indptr: Integers,
    rows: Integers,
    segments: Integers,
    features: Integers,
    x: Model,
    mine: Lifted,
    z: PerRow,
) -> None:
    """Four running sums hide the latency of an addition; their order depends on the row alone."""
    gather(features, x, mine)
    zero = data.dtype.type(0.0)
    for i in range(len(rows) - 1):
        own = mine[segments[i] : segments[i + 1]]
        for r in range(rows[i], rows[i + 1]):
            at, value = positions[indptr[r] : indptr[r + 1]], data[indptr[r] : indptr[r + 1]]
            z0, z1, z2, z3 = zero, zero, zero, zero
            whole = len(at) - len(at) % 4
            for k in range(0, whole, 4):
                z0 += value[k] * own[at[k]]
                z1 += value[k + 1] * own[at[k + 1]]
                z2 += value[k + 2] * own[at[k + 2]]
                z3 += value[k + 3] * own[at[k + 3]]
            for k in range(whole, len(at)):
                z0 += value[k] * own[at[k]]
            z[r] = (z0 + z1) + (z2 + z3)


@numba.njit(cache=True, nogil=True)
def _backward(
    data: Floats, positions: Integers, indptr: Integers, rows: Integers, segments: Integers, s: PerRow, out: Lifted
) -> None:
    for i in range(len(rows) - 1):
        g = out[segments[i] : segments[i + 1]]
        g[:] = 0.0
        for r in range(rows[i], rows[i + 1]):
            at, value, slope = positions[indptr[r] : indptr[r + 1]], data[indptr[r] : indptr[r + 1]], s[r]
            for k in range(len(at)):
                g[at[k]] += slope * value[k]
