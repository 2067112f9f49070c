"""Random rounding to the levels of a codebook (`wire.codebook`): the one below or the one above, so that the mean is right.

An entry at q units between the levels a and b = a + gap becomes b with probability (q - a)/gap and a otherwise:

    E C(u) = u,   E (C(u)_j - u_j)^2 = (q - a)(b - q) unit^2.

Draws are keyed by (seed, round, client), one for every entry in its order. Unit and codes travel as those of the
compressors that round to the nearest level.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numba
import numpy as np

from errorfeedback.compressors.base import Operator, Unbiased
from errorfeedback.core import Floats, Integers, Lifted, PerClient, Round
from errorfeedback.keyed import GOLDEN, stream, unit
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.codebook import DIGITS, LEAST, Codebook, float_of, pattern_of, unit_for
from errorfeedback.wire.frames import Frames
from errorfeedback.wire.message import KnownLayout, Message


@dataclass(frozen=True)
class RandomLevels(Unbiased):
    """Every entry, rounded at random; one unit per client or per block of its entries."""

    @property
    @abstractmethod
    def coding(self) -> Codebook: ...

    @property
    @abstractmethod
    def reach(self) -> int:
        """The level that the length of a block is at: the unit is length/reach, rounded up."""

    @property
    @abstractmethod
    def by_norm(self) -> bool:
        """The length of a block is its norm, and not its largest magnitude."""

    @property
    def independent(self) -> bool:
        return True

    def entries(self, support: Support) -> PerClient:
        return PerClient(support.sizes.astype(np.float64))

    def on(self, support: Support) -> Operator:
        return _Drawn(support, self, self.frames(support))


class _Drawn(Operator):
    def __init__(self, support: Support, config: RandomLevels, frames: Frames) -> None:
        super().__init__(support, frames)
        self.config, self.units = config, np.empty(int(frames.units.sum()))

    def __call__(self, u: Lifted, ctx: Round) -> Message:
        c, s, values = self.config.coding, self.support, np.empty_like(u)
        keys, scale = (ctx.seed, ctx.t, s.first), (self.config.by_norm, float(self.config.reach), LEAST[u.dtype])
        _draw(u, s.indptr, keys, c.length, scale, c.digits, values, self.units)
        return Message(s, None, values, self.frames, self.units)

    def known(self, ctx: Round) -> KnownLayout:
        return KnownLayout(self.frames, None)


@numba.njit(cache=True, nogil=True)
def _length(block: Floats, by_norm: bool) -> float:
    """The largest magnitude of a block, or its norm; not finite where an entry is not."""
    pattern, total = np.int64(0), 0.0
    for p in range(len(block)):
        pattern = max(pattern, pattern_of(abs(block[p])))
    largest = float_of(pattern)
    if not by_norm or not 0.0 < largest < np.inf:
        return largest
    for p in range(len(block)):
        total += (block[p] / largest) ** 2
    return largest * np.sqrt(total)


@numba.njit(cache=True, nogil=True)
def _draw(
    u: Lifted,
    indptr: Integers,
    keys: tuple[int, int, int],
    length: int,
    scale: tuple[bool, float, float],
    digits: int,
    values: Lifted,
    units: Floats,
) -> None:
    """values: the level below or above every entry of u."""
    seed, t, first = keys
    by_norm, reach, least = scale
    drop, plain, k = DIGITS - digits, np.float64(np.int64(1) << digits), 0
    for i in range(len(indptr) - 1):
        state = stream(seed, t, first + i)
        for lo in range(indptr[i], indptr[i + 1], length):
            hi = min(lo + length, indptr[i + 1])
            one = units[k] = unit_for(_length(u[lo:hi], by_norm), reach, least)
            k += 1
            for p in range(lo, hi):
                state += GOLDEN
                q = min(abs(np.float64(u[p])) / one, reach) if one > 0.0 else 0.0
                pattern = pattern_of(q)
                below = np.floor(q) if q < plain else float_of((pattern >> drop) << drop)
                gap = 1.0 if q < plain else float_of((pattern >> DIGITS) << DIGITS) / plain
                level = below + gap if unit(state) * gap < q - below else below
                values[p] = np.copysign(level * one, u[p]) + 0.0  # no zero has a sign
