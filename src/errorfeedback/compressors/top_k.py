"""TopK: the K entries of largest magnitude; ties go to the lower index.

Lemma 3: ||TopK(u) - u||^2 <= (1 - min(K, |J_i|)/|J_i|) ||u||^2 on R^{|J_i|}.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np

from errorfeedback.compressors.base import Contractive, Message, Operator, Sparsifier, index_bits
from errorfeedback.core import AUTHORS_VALUE_BITS, VALUE_BITS, Floats, Integers, Lifted, PerClient, Round
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

    def bits(self, support: Support) -> PerClient:
        levels = self.levels(support)
        indexed = levels < support.sizes  # a client that sends all it has needs no index
        return (levels * (VALUE_BITS + indexed * index_bits(support.sizes))).astype(np.float64)

    def on(self, support: Support) -> Operator:
        return _Selection(support, self.levels(support))

    @classmethod
    def examples(cls) -> Sequence[TopK]:
        return [cls(1), cls(2)]


class _Selection(Operator):
    def __init__(self, support: Support, levels: Integers) -> None:
        super().__init__(support)
        self.ends = np.concatenate([[0], np.cumsum(levels)])
        self.positions = np.empty(self.ends[-1], dtype=np.int64)
        self.scratch = np.empty(support.r)
        compressed = levels < support.sizes  # a client that sends all it has needs no index
        self.bits = int((levels * (VALUE_BITS + compressed * index_bits(support.sizes))).sum())
        self.authors_bits = AUTHORS_VALUE_BITS * int(levels.sum())

    def __call__(self, u: Lifted, ctx: Round) -> Message:
        _select(u, self.support.indptr, self.ends, self.scratch, self.positions)
        return Message(self.support, self.positions, u[self.positions], self.bits, self.authors_bits)


@numba.njit(cache=True)
def _select(u: Lifted, indptr: Integers, ends: Integers, scratch: Floats, positions: Integers) -> None:
    """positions[ends[i]:ends[i+1]]: the largest |u| of segment i, ascending by position."""
    for i in range(len(indptr) - 1):
        lo, hi = indptr[i], indptr[i + 1]
        at, stop = ends[i], ends[i + 1]
        k = stop - at
        if k == 1:
            best = lo
            for p in range(lo + 1, hi):
                if abs(u[p]) > abs(u[best]):
                    best = p
            positions[at] = best
            continue
        magnitude = scratch[: hi - lo]
        for p in range(lo, hi):
            magnitude[p - lo] = abs(u[p])
        least = np.partition(magnitude, hi - lo - k)[hi - lo - k]
        ties = k
        for p in range(lo, hi):
            ties -= abs(u[p]) > least
        for p in range(lo, hi):
            size = abs(u[p])
            tie = size == least and ties > 0
            if (size > least or tie) and at < stop:
                positions[at] = p
                at += 1
                ties -= tie
        for p in range(lo, hi):  # only a segment with NaN gets here: any K positions will do
            if at == stop:
                break
            positions[at] = p
            at += 1
