"""TopK where every client finds its K anew in every round: the fewest numbers that hold a given share of what is to be sent,

    K = min {k : ||Top_k(u)||^2 >= share ||u||^2},    so that    ||C(u) - u||^2 <= (1 - share)||u||^2,

whatever |J_i| is. TopK's alpha is K/|J_i|, its worst case; u is never that flat. What a K does to a run is to let g follow
the gradients at some rate, and that rate is the share of u that is sent: it decides how many rounds a run takes, and is the
same for clients of 70 and of 10,000 features, early in a run and late (docs/theory.md, section 25). Nothing is announced: a
frame says how many numbers are in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numba
import numpy as np

from errorfeedback.compressors.base import Contractive, Operator
from errorfeedback.compressors.top_k import select_largest
from errorfeedback.core import Integers, Lifted, PerClient, Round
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.coding import FULL
from errorfeedback.wire.frames import bits_per_index, self_counted
from errorfeedback.wire.message import KnownLayout, Message


@dataclass(frozen=True)
class TopShare(Contractive):
    """`share` of ||u||^2, between 0 and 1; ties go to the lower index.

    >>> from errorfeedback.sparsity.support import full_support
    >>> u, support = np.array([8.0, 4.0, 2.0, 1.0]), full_support(1, 4)  # squares: 64 of 85, 80, 84, 85
    >>> [len(TopShare(share).on(support)(u, Round(0, 0)).values) for share in (0.5, 0.9, 0.95)]
    [1, 2, 3]
    """

    announces: ClassVar[bool] = False
    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError(f"share = {self.share}; the share of ||u||^2 that is sent is between 0 and 1")

    def alpha(self, support: Support) -> PerClient:
        """The largest square is at least the mean of all."""
        return PerClient(np.maximum(self.share, 1.0 / support.sizes))

    def entries(self, support: Support) -> PerClient:
        """Those of a u whose entries are alike: the most that it may take."""
        return self.most_entries(support)

    def most_entries(self, support: Support) -> PerClient:
        return PerClient(np.ceil(self.share * support.sizes))

    def index_bits(self, support: Support) -> PerClient:
        entries = self.entries(support)
        return PerClient(entries * bits_per_index(support.sizes) * (entries < support.sizes))

    def on(self, support: Support) -> Operator:
        return _ByShare(support, self)

    @classmethod
    def examples(cls) -> Sequence[TopShare]:
        return [cls(0.37)]


class _ByShare(Operator):
    def __init__(self, support: Support, compressor: TopShare) -> None:
        super().__init__(support, compressor.frames(support))
        self.share = compressor.share
        self.ends = np.zeros(support.n + 1, dtype=np.int64)
        self.positions, self.values = np.zeros(support.size, dtype=np.int64), np.empty(support.size)

    def __call__(self, u: Lifted, ctx: Round) -> Message:
        if self.values.dtype != u.dtype:
            self.values = np.empty(len(self.values), dtype=u.dtype)
        _fewest(u, self.support.indptr, self.share, self.ends)
        select_largest(u, self.support.indptr, self.ends, self.positions, self.values)
        sent, frames = self.ends[-1], self_counted(np.diff(self.ends), self.support.sizes, FULL)
        return Message(self.support, self.positions[:sent], self.values[:sent], frames)

    def known(self, ctx: Round) -> KnownLayout:
        return KnownLayout(self.unannounced)


@numba.njit(cache=True, nogil=True)
def _fewest(u: Lifted, indptr: Integers, share: float, ends: Integers) -> None:
    """ends[i + 1] - ends[i]: the K of client i, at least 1. In units of its largest entry no square overflows."""
    for i in range(len(indptr) - 1):
        magnitude = np.sort(np.abs(u[indptr[i] : indptr[i + 1]]))
        last = len(magnitude) - 1
        unit = np.float64(magnitude[last])
        if not (unit > 0.0 and unit < np.inf):  # nothing to send, or nothing that could be squared
            ends[i + 1] = ends[i] + 1
            continue
        total = 0.0
        for p in range(len(magnitude)):
            total += (magnitude[p] / unit) ** 2
        kept, k = 1.0, 1
        while kept < share * total and k <= last:
            kept += (magnitude[last - k] / unit) ** 2
            k += 1
        ends[i + 1] = ends[i] + k
