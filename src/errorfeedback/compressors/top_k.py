"""TopK: the K entries of largest magnitude; ties go to the lower index.

Lemma 3: ||TopK(u) - u||^2 <= (1 - min(K, |J_i|)/|J_i|) ||u||^2 on R^{|J_i|}.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np

from errorfeedback.compressors.base import Contractive, Message, Operator, Sparsifier, bits_per_index
from errorfeedback.compressors.frames import Frames
from errorfeedback.core import Floats, Integers, Lifted, PerClient, Round
from errorfeedback.sparsity.support import Support


@dataclass(frozen=True)
class TopK(Sparsifier, Contractive):
    """Greedy sparsification.

    >>> from errorfeedback.sparsity.support import full_support
    >>> TopK(1).on(full_support(1, 3))(np.array([1.0, -4.0, 2.0]), Round(0, 0)).lifted()
    array([ 0., -4.,  0.])
    """

    def alpha(self, support: Support) -> PerClient:
        return self.share(support)

    def index_bits(self, support: Support) -> PerClient:
        levels = self.levels(support)
        indexed = levels < support.sizes  # a client that sends all it has needs no index
        return (levels * indexed * bits_per_index(support.sizes)).astype(np.float64)

    def on(self, support: Support) -> Operator:
        return _Selection(support, self.levels(support), self.frames(support))

    @classmethod
    def examples(cls) -> Sequence[TopK]:
        return [cls(1), cls(2)]


class _Selection(Operator):
    def __init__(self, support: Support, levels: Integers, frames: Frames) -> None:
        super().__init__(support, frames)
        self.ends = np.concatenate([[0], np.cumsum(levels)])
        self.positions, self.values = np.zeros(self.ends[-1], dtype=np.int64), np.empty(self.ends[-1])
        self.select = _largest if np.all(levels == 1) else _select

    def __call__(self, u: Lifted, ctx: Round) -> Message:
        if self.values.dtype != u.dtype:
            self.values = np.empty(len(self.values), dtype=u.dtype)
        self.select(u, self.support.indptr, self.ends, self.positions, self.values)
        return Message(self.support, self.positions, self.values, self.frames)


STRIP = 32
"""Entries whose largest magnitude is found in vector registers before anybody asks where it stands."""


@numba.njit(cache=True, nogil=True, fastmath={"nnan", "nsz", "reassoc"})
def _largest(u: Lifted, indptr: Integers, ends: Integers, positions: Integers, values: Floats) -> None:
    """K = 1: the position of the largest |u| of every segment (the first of equals)."""
    for i in range(len(indptr) - 1):
        segment = u[indptr[i] : indptr[i + 1]]
        size = len(segment)
        best, at = 0.0, 0
        for start in range(0, size - STRIP + 1, STRIP):
            strip, top = segment[start : start + STRIP], 0.0
            for p in range(STRIP):
                top = max(top, abs(strip[p]))
            if top > best:
                best, at = top, start
        start, top = size - size % STRIP, 0.0
        for p in range(start, size):
            top = max(top, abs(segment[p]))
        if top > best:
            best, at = top, start
        for p in range(at, size):
            if abs(segment[p]) == best:
                at = p
                break
        positions[i], values[i] = indptr[i] + at, segment[at]


@numba.njit(cache=True, nogil=True)
def _select(u: Lifted, indptr: Integers, ends: Integers, positions: Integers, values: Floats) -> None:
    """positions[ends[i]:ends[i+1]]: the largest |u| of segment i, ascending by position, and what stands there."""
    for i in range(len(indptr) - 1):
        lo, hi = indptr[i], indptr[i + 1]
        at, stop = ends[i], ends[i + 1]
        magnitude = np.abs(u[lo:hi])
        least = np.partition(magnitude, hi - lo - (stop - at))[hi - lo - (stop - at)]
        ties = stop - at
        for p in range(hi - lo):
            ties -= magnitude[p] > least
        for p in range(hi - lo):
            tie = magnitude[p] == least and ties > 0
            if (magnitude[p] > least or tie) and at < stop:
                positions[at] = lo + p
                at += 1
                ties -= tie
        if at < stop:  # only a segment with NaN gets here: any K positions will do
            for k in range(stop - ends[i]):
                positions[ends[i] + k] = lo + k
        for k in range(ends[i], stop):
            values[k] = u[positions[k]]
