"""Dense blocks A_i[:, J_i]: what is left of rare features once the columns that a client lacks are dropped."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numba
import numpy as np
from scipy import sparse

from errorfeedback.core import Floats, Integers, Lifted, Model, PerRow
from errorfeedback.problems.blocks.base import Blocks, Fill
from errorfeedback.sparsity.support import Support

FILL = 0.3
"""A dense entry takes about a quarter of the time of a sparse one (benchmarks/layouts.py), and 8 bytes instead of 10."""

REASSOCIATE = {"reassoc", "contract", "nsz"}
"""Lets a dot product run in vector registers; the order it is summed in depends on its length alone."""


@dataclass(frozen=True, eq=False)
class Dense(Blocks):
    """data[offsets[i] + k |J_i| + p] is entry p of row k of client i."""

    data: Floats
    offsets: Integers
    apart: ClassVar[bool] = False

    @classmethod
    def fits(cls, fill: Fill) -> bool:
        return fill.nonzeros >= FILL * fill.room

    @classmethod
    def make(cls, lifted: sparse.csr_array, support: Support, rows: Integers) -> Dense:
        m = np.diff(rows)
        offsets = np.concatenate([[0], np.cumsum(m * support.sizes)])
        data = np.zeros(offsets[-1], dtype=lifted.dtype)
        _fill(lifted.data, lifted.indices, lifted.indptr, rows, support.indptr, offsets, data)
        return cls(support, rows, data, offsets)

    @cached_property
    def own(self) -> Floats:
        """Scratch for one client's coordinates of x: a block is long enough for them to wait in the nearest cache."""
        return np.empty(self.support.r, dtype=self.dtype)

    def forward(self, x: Model, z: PerRow, work: Lifted) -> None:
        _forward(self.data, self.offsets, self.rows, self.support.indptr, self.features, x, self.own, z)

    def backward(self, s: PerRow, out: Lifted) -> None:
        _backward(self.data, self.offsets, self.rows, self.support.indptr, s, out)

    def residual(self, x: Model, shares: PerRow, b: PerRow, out: Lifted, squares: PerRow | None = None) -> None:
        sink = self.nobody if squares is None else squares
        _residual(self.data, self.offsets, self.rows, self.support.indptr, self.features, x, shares, b, self.own, out, sink)

    @cached_property
    def nobody(self) -> PerRow:
        """Where squares go that nobody asked for."""
        return np.empty(0, dtype=self.dtype)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    @property
    def bytes(self) -> int:
        return self.data.nbytes + self.offsets.nbytes + self.features.nbytes

    @classmethod
    def describe(cls, support: Support) -> str:
        return "dense blocks"


@numba.njit(cache=True, nogil=True)
def _fill(
    entries: Floats,
    positions: Integers,
    indptr: Integers,
    rows: Integers,
    segments: Integers,
    offsets: Integers,
    data: Floats,
) -> None:
    for i in range(len(rows) - 1):
        first, size = segments[i], segments[i + 1] - segments[i]
        for r in range(rows[i], rows[i + 1]):
            row = offsets[i] + (r - rows[i]) * size - first
            for k in range(indptr[r], indptr[r + 1]):
                data[row + positions[k]] = entries[k]


@numba.njit(cache=True, nogil=True, fastmath=REASSOCIATE)
def _forward(
    data: Floats,
    offsets: Integers,
    rows: Integers,
    segments: Integers,
    features: Integers,
    x: Model,
    own: Floats,
    z: PerRow,
) -> None:
    for i in range(len(rows) - 1):
        mine = features[segments[i] : segments[i + 1]]
        size, at = len(mine), offsets[i]
        for p in range(size):
            own[p] = x[mine[p]]
        for r in range(rows[i], rows[i + 1]):
            a, total = data[at : at + size], data.dtype.type(0.0)
            for p in range(size):
                total += a[p] * own[p]
            z[r] = total
            at += size


@numba.njit(cache=True, nogil=True, fastmath=REASSOCIATE)
def _backward(data: Floats, offsets: Integers, rows: Integers, segments: Integers, s: PerRow, out: Lifted) -> None:
    for i in range(len(rows) - 1):
        g = out[segments[i] : segments[i + 1]]
        size, at = len(g), offsets[i]
        g[:] = 0.0
        for r in range(rows[i], rows[i + 1]):
            a, slope = data[at : at + size], s[r]
            for p in range(size):
                g[p] += slope * a[p]
            at += size


@numba.njit(cache=True, nogil=True, fastmath=REASSOCIATE)
def _residual(
    data: Floats,
    offsets: Integers,
    rows: Integers,
    segments: Integers,
    features: Integers,
    x: Model,
    shares: PerRow,
    b: PerRow,
    own: Floats,
    out: Lifted,
    squares: PerRow,
) -> None:
    """Both products in one pass, four rows at a time: each block is read from memory once, x and g once per four rows."""
    zero, two, wanted = data.dtype.type(0.0), data.dtype.type(2.0), len(squares) > 0
    for i in range(len(rows) - 1):
        mine = features[segments[i] : segments[i + 1]]
        size, at, r, last = len(mine), offsets[i], rows[i], rows[i + 1]
        g = out[segments[i] : segments[i + 1]]
        for p in range(size):
            own[p] = x[mine[p]]
        g[:] = 0.0
        while r + 4 <= last:
            a0, a1 = data[at : at + size], data[at + size : at + 2 * size]
            a2, a3 = data[at + 2 * size : at + 3 * size], data[at + 3 * size : at + 4 * size]
            s0, s1, s2, s3 = zero, zero, zero, zero
            for p in range(size):
                s0 += a0[p] * own[p]
                s1 += a1[p] * own[p]
                s2 += a2[p] * own[p]
                s3 += a3[p] * own[p]
            s0, s1, s2, s3 = s0 - b[r], s1 - b[r + 1], s2 - b[r + 2], s3 - b[r + 3]
            if wanted:
                squares[r], squares[r + 1], squares[r + 2], squares[r + 3] = s0 * s0, s1 * s1, s2 * s2, s3 * s3
            s0, s1 = two * shares[r] * s0, two * shares[r + 1] * s1
            s2, s3 = two * shares[r + 2] * s2, two * shares[r + 3] * s3
            for p in range(size):
                g[p] += s0 * a0[p] + s1 * a1[p] + s2 * a2[p] + s3 * a3[p]
            at += 4 * size
            r += 4
        while r < last:
            a0, s0 = data[at : at + size], zero
            for p in range(size):
                s0 += a0[p] * own[p]
            s0 -= b[r]
            if wanted:
                squares[r] = s0 * s0
            s0 *= two * shares[r]
            for p in range(size):
                g[p] += s0 * a0[p]
            at += size
            r += 1
