"""Few bits for every entry (`wire.codebook`): what all such compressors have in common, and their contraction.

The levels are l_0 = 0 < l_1 < ... < l_top, in units; between two of them is the threshold T_k = (l_k + l_{k+1})/2, half a
gap h_k = (l_{k+1} - l_k)/2 from both. In a block of b entries the largest fixes the unit, which is rounded up by a share of
at most eta = 2^-5: the largest entry is at L units or more, L = l_top/(1 + eta).

**Lemma.** For every u in R^b

    ||C(u) - u||^2 <= lambda ||u||^2,   lambda = max (e^2 + (b - 1) h_k^2) / (q^2 + (b - 1) T_k^2)

over all k, and h = T = 0, and over the two pairs (q, e) of a place of the largest entry and its error: L, and the first
threshold above L where there is one. This is the supremum over u.

*Proof.* Let an entry be at q units, and e(q) its error in units. Between a level and a threshold next to it e(q) is
|q - level|, so that e(q)^2 - lambda q^2 is convex in q (lambda < 1) and largest at one of the two ends: at most 0 at a
level, h_k^2 - lambda T_k^2 at a threshold. So all entries but the largest add at most (b - 1) max(0, max_k (h_k^2 - lambda
T_k^2)). For the largest the ends are thresholds, levels and L; all thresholds above L have the same h, so that the first
counts. By the choice of lambda the sum of both is at most 0. It is 0 with the largest entry at q and b - 1 just below the
threshold of the maximum.                                                                                               QED

A client's segment is cut into blocks, and the lemma holds for each; lambda grows with b, so 1 - alpha_i is lambda at
b = min(block, |J_i|). For powers of two it is about max(1/9, b/(4 l_top^2 + b)), for equally spaced levels the
second of these.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numba
import numpy as np
from numpy.typing import NDArray

from errorfeedback.compressors.base import Contractive, Operator
from errorfeedback.core import Floats, Integers, Lifted, PerClient, Round
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.codebook import (
    EXCESS,
    LEAST,
    Codebook,
    float_of,
    nearest_level,
    pattern_of,
    round_block,
    round_blocks,
)
from errorfeedback.wire.coding import Coding
from errorfeedback.wire.frames import Frames
from errorfeedback.wire.message import KnownLayout, Message
from errorfeedback.wire.truncated import TruncatedFloats

ALMOST = float(np.nextafter(1.0, 0.0))
"""Who loses anything at all has an error: alpha is not 1."""


@dataclass(frozen=True)
class FewBits(Contractive):
    """Every entry, rounded to a level of a codebook; one unit per client or per block of its entries."""

    selects: ClassVar[bool] = False

    @property
    @abstractmethod
    def coding(self) -> Codebook: ...

    def alpha(self, support: Support) -> PerClient:
        return kept_share(self.coding, support.sizes)

    def entries(self, support: Support) -> PerClient:
        return PerClient(support.sizes.astype(np.float64))

    def on(self, support: Support) -> Operator:
        return _Coded(support, self.coding, self.frames(support))


def kept_share(coding: Coding, counts: NDArray[Any]) -> PerClient:
    """alpha of a coding on so many values of a client: 1 - lambda, or 1 - eps^2 where values are rounded one by one."""
    if isinstance(coding, TruncatedFloats):
        lost = coding.relative_error**2
        return PerClient(np.full(len(counts), min(1.0 - lost, ALMOST) if lost else 1.0))
    if not isinstance(coding, Codebook):
        return PerClient(np.ones(len(counts)))
    lengths, which = np.unique(np.clip(counts, 1, coding.length), return_inverse=True)
    return PerClient(np.array([1.0 - lost_share(coding, int(length)) for length in lengths])[which])


def lost_share(codebook: Codebook, length: int) -> float:
    """lambda of the lemma for a block of that length.

    >>> [round(lost_share(Codebook(4, 0), length), 4) for length in (1, 1000)]
    [0.001, 0.1109]
    """
    top, m, others = codebook.top, codebook.digits, length - 1
    L, gaps = top / (1 + EXCESS), 2.0 ** np.arange(2 ** (codebook.each - 1 - m) - 1)
    largest = [(L, abs(nearest_level(L, m) - L))]
    above = (np.floor(L / gaps[-1] - 0.5) + 1.5) * gaps[-1]  # the first threshold above L
    if above < top:
        largest.append((above, gaps[-1] / 2))
    if not m:  # the top level is alone with its exponent
        gaps = gaps[:-1]
    T = np.concatenate([[0.0, 0.5], (2**m + 0.5) * gaps])  # of all with the same gap the first is the worst
    h = np.concatenate([[0.0, 0.5], gaps / 2])
    return max(float(np.max((e**2 + others * h**2) / (q**2 + others * T**2))) for q, e in largest)


class _Coded(Operator):
    def __init__(self, support: Support, coding: Codebook, frames: Frames) -> None:
        super().__init__(support, frames)
        self.coding, self.values = coding, np.empty(support.size)
        self.units = np.empty(int(frames.units.sum()))

    def __call__(self, u: Lifted, ctx: Round) -> Message:
        c, values = self.coding, self._room(u)
        values[:] = u
        round_blocks(values, self.support.sizes, c.length, c.top, c.digits, LEAST[u.dtype], self.units)
        return Message(self.support, None, values, self.frames, self.units)

    def track(self, g: Lifted, grads: Lifted, ctx: Round) -> Message:
        c, values = self.coding, self._room(g)
        _track(g, grads, self.support.indptr, c.length, c.top, c.digits, LEAST[g.dtype], values, self.units)
        return Message(self.support, None, values, self.frames, self.units)

    def known(self, ctx: Round) -> KnownLayout:
        return KnownLayout(self.frames, None)

    def _room(self, u: Lifted) -> Floats:
        if self.values.dtype != u.dtype:
            self.values = np.empty(len(self.values), dtype=u.dtype)
        return self.values


@numba.njit(cache=True, nogil=True)
def _track(
    g: Lifted,
    grads: Lifted,
    indptr: Integers,
    length: int,
    top: float,
    digits: int,
    least: float,
    values: Floats,
    units: Floats,
) -> None:
    """values = C(grads - g), g += values, block by block, while all of it is at hand."""
    k = 0
    for i in range(len(indptr) - 1):
        for lo in range(indptr[i], indptr[i + 1], length):
            hi = min(lo + length, indptr[i + 1])
            there, here, sent = grads[lo:hi], g[lo:hi], values[lo:hi]
            largest = np.int64(0)
            for p in range(len(sent)):
                sent[p] = there[p] - here[p]
                largest = max(largest, pattern_of(abs(sent[p])))
            units[k] = round_block(sent, float_of(largest), top, digits, least)
            k += 1
            for p in range(len(sent)):
                here[p] += sent[p]
