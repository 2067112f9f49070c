"""What the messages of a shard cost on the wire, up or down.

A client's frame (`wire.codec`) is 3 bytes (version and coding, check), the number of its values (1 byte below 128), and
its indices, what else it tells and its values (`wire.coding`) as one string of bits that is padded to whole bytes. A client
that has neither values nor anything else to tell has no frame, where both sides know that beforehand. The *payload* is what
theory counts: values, indices and what is said beside.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import AUTHORS_VALUE_BITS, Integers
from errorfeedback.wire.coding import FULL, Coding

PerClients: TypeAlias = NDArray[Any]
"""One number per client: whole, or an average."""
HEAD_BITS = 24
"""Version and coding (8), check (16)."""
LOSS_FRAME_BITS = HEAD_BITS + 8 + 64
"""The frame of a single float64: a loss at the end of a run."""
DIGIT = 7
"""The number of values is written in digits of that many bits, one per byte."""


def whole_bytes(bits: PerClients) -> PerClients:
    """Rounded up to a multiple of 8.

    >>> whole_bytes(np.array([0, 1, 8, 9]))
    array([ 0,  8,  8, 16])
    """
    return -(-bits // 8) * 8


def count_bits(counts: PerClients) -> PerClients:
    """What the number of values takes.

    >>> count_bits(np.array([0, 127, 128, 2**14]))
    array([ 8,  8, 16, 24])
    """
    length = np.frexp(np.asarray(counts, dtype=np.float64))[1].astype(np.int64)
    return 8 * np.maximum(-(-length // DIGIT), 1)


def frame_bits(
    counts: PerClients, index_bits: PerClients, values: PerClients, beside: int = 0, announced: bool = True
) -> PerClients:
    """The frames of clients that send so many values, which take `values` bits and so many bits of indices, and say
    `beside` bits beside them."""
    whole = HEAD_BITS + count_bits(counts) + whole_bytes(index_bits + values + beside)
    return whole * ((counts > 0) | (beside > 0) | (not announced))


def bits_per_index(sizes: Integers) -> Integers:
    """ceil(log2 |J_i|): the bits of one index when both sides know J_i.

    >>> bits_per_index(np.array([1, 2, 3, 4, 5]))
    array([0, 1, 2, 2, 3])
    """
    return np.frexp((sizes - 1).astype(np.float64))[1].astype(np.int64)


def self_counted(counts: Integers, sizes: Integers, coding: Coding) -> Frames:
    """Frames that say by themselves how many values they have, and where, unless it is everywhere."""
    return Frames(counts, counts * bits_per_index(sizes) * (counts < sizes), coding, announced=False)


class Cost(NamedTuple):
    """Bits of a shard's frames in a round."""

    bits: int
    """On the wire."""
    payload: int
    """Without heads, counts and padding."""
    authors: int
    """As the authors count: 32 per value, indices free, a full gradient costs d values."""


@dataclass(eq=False)
class Frames:
    """How many values, and bits of indices, every client of a shard sends (or gets) in a round."""

    counts: Integers
    index_bits: Integers
    coding: Coding = FULL
    """How the values travel."""
    answers: NDArray[np.bool_] | None = None
    """Which clients take part in the round; None: all."""
    announced: bool = True
    """Both sides know all of this beforehand. Where they do not, every client has a frame, which says how many it has."""
    charged: int | None = None
    """How many values the authors charge for, where it is not those that are sent."""
    _memo: dict[tuple[int, int], Cost] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def total(self) -> int:
        """Values of all clients."""
        return int(self.counts.sum())

    @cached_property
    def units(self) -> Integers:
        """How many units every client's values have."""
        return self.coding.blocks(self.counts)

    def cost(self, beside: int, precision: int) -> Cost:
        """What the frames take where every client tells that many bits beside its values, in a problem of so many bits."""
        try:
            return self._memo[beside, precision]
        except KeyError:
            cost = self._memo[beside, precision] = self._cost(beside, precision)
            return cost

    def _cost(self, beside: int, precision: int) -> Cost:
        values = self.coding.bits(self.counts, precision)
        bits = int(frame_bits(self.counts, self.index_bits, values, beside, self.announced).sum())
        payload = int(values.sum()) + int(self.index_bits.sum()) + beside * len(self.counts)
        return Cost(bits, payload, AUTHORS_VALUE_BITS * (self.total if self.charged is None else self.charged))
