"""TopK: the K entries of largest magnitude; ties go to the lower index.

Lemma 3: ||TopK(u) - u||^2 <= (1 - min(K, |J_i|)/|J_i|) ||u||^2 on R^{|J_i|}.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np

from errorfeedback.compressors.base import Contractive, Operator, Sparsifier
from errorfeedback.core import Floats, Integers, Lifted, PerClient, Round
from errorfeedback.machine import larger
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.frames import Frames, bits_per_index
from errorfeedback.wire.message import Message

BLOCK = 32
"""Entries of which only the largest is looked at first, where there are at least twice as many blocks as are wanted."""


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
        return PerClient((levels * indexed * bits_per_index(support.sizes)).astype(np.float64))

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
        self.single = bool(np.all(levels == 1))

    def __call__(self, u: Lifted, ctx: Round) -> Message:
        select = _largest if self.single else select_largest
        select(u, self.support.indptr, self.ends, self.positions, self._room(u))
        return Message(self.support, self.positions, self.values, self.frames)

    def track(self, g: Lifted, grads: Lifted, ctx: Round) -> Message:
        if not self.single:
            return super().track(g, grads, ctx)
        _track(g, grads, self.support.indptr, self.positions, self._room(g))
        return Message(self.support, self.positions, self.values, self.frames)

    def _room(self, u: Lifted) -> Floats:
        if self.values.dtype != u.dtype:
            self.values = np.empty(len(self.values), dtype=u.dtype)
        return self.values


@numba.njit(cache=True, nogil=True)
def _largest(u: Lifted, indptr: Integers, ends: Integers, positions: Integers, values: Floats) -> None:
    """K = 1: the position of the largest |u| of every segment (the first of equals)."""
    for i in range(len(indptr) - 1):
        segment = u[indptr[i] : indptr[i + 1]]
        best = u.dtype.type(0.0)
        for p in range(len(segment)):
            best = larger(best, abs(segment[p]))
        at = len(segment)
        for p in range(len(segment)):
            at = min(at, p if abs(segment[p]) == best else len(segment))
        at = at if at < len(segment) else 0  # only a segment with NaN gets here: any position will do
        positions[i], values[i] = indptr[i] + at, segment[at]


@numba.njit(cache=True, nogil=True)
def _track(g: Lifted, grads: Lifted, indptr: Integers, positions: Integers, values: Floats) -> None:
    """The same of u = grads - g, and g += the message, while both are at hand."""
    for i in range(len(indptr) - 1):
        there, here = grads[indptr[i] : indptr[i + 1]], g[indptr[i] : indptr[i + 1]]
        best = g.dtype.type(0.0)
        for p in range(len(here)):
            best = larger(best, abs(there[p] - here[p]))
        at = len(here)
        for p in range(len(here)):
            at = min(at, p if abs(there[p] - here[p]) == best else len(here))
        at = at if at < len(here) else 0
        positions[i], values[i] = indptr[i] + at, there[at] - here[at]
        here[at] += values[i]


@numba.njit(cache=True, nogil=True)
def _kth_largest(magnitude: Floats, k: int) -> float:
    """The k-th largest entry. Where k blocks have an entry of at least `floor`, so has the k-th largest: what is below is
    left out, and mostly that is nearly all."""
    n, blocks = len(magnitude), len(magnitude) // BLOCK
    if blocks < 2 * k:
        return np.partition(magnitude, n - k)[n - k]
    starts = np.arange(blocks + 1) * BLOCK
    starts[-1] = n
    tops = np.zeros(blocks, dtype=magnitude.dtype)
    for b in range(blocks):
        best = magnitude.dtype.type(0.0)
        for p in range(starts[b], starts[b + 1]):
            best = larger(best, magnitude[p])
        tops[b] = best
    floor = np.partition(tops, blocks - k)[blocks - k]
    if not floor > 0.0:
        return np.partition(magnitude, n - k)[n - k]
    left, count = np.empty(n, dtype=magnitude.dtype), 0
    for b in range(blocks):
        if tops[b] >= floor:
            for p in range(starts[b], starts[b + 1]):
                if magnitude[p] >= floor:
                    left[count] = magnitude[p]
                    count += 1
    return np.partition(left[:count], count - k)[count - k] if count >= k else magnitude.dtype.type(np.nan)


@numba.njit(cache=True, nogil=True)
def select_largest(u: Lifted, indptr: Integers, ends: Integers, positions: Integers, values: Floats) -> None:
    """positions[ends[i]:ends[i+1]]: the largest |u| of segment i, ascending by position, and what stands there."""
    for i in range(len(indptr) - 1):
        lo, hi = indptr[i], indptr[i + 1]
        at, stop = ends[i], ends[i + 1]
        magnitude = np.abs(u[lo:hi])
        least = _kth_largest(magnitude, stop - at)
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
