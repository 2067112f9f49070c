"""What the messages of a shard cost on the wire.

A client's frame (`engines.wire`) is 3 bytes (version and precision, check), the number of its values (1 byte below 128),
its indices and what else it tells as one string of bits that is padded to whole bytes, and its values. A client that has
neither values nor anything else to tell has no frame. The *payload* is what theory counts: values, indices and what is told.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import Integers

PerClients: TypeAlias = NDArray[Any]
"""One number per client: whole, or an average."""
HEAD_BITS = 24
"""Version and precision (8), check (16)."""
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


def frame_bits(counts: PerClients, index_bits: PerClients, value_bits: int, told: int = 0) -> PerClients:
    """The frames of clients that send so many values, with so many bits of indices, and tell `told` bits each."""
    whole = HEAD_BITS + count_bits(counts) + whole_bytes(index_bits + told) + value_bits * counts
    return whole * ((counts > 0) | (told > 0))


@dataclass(eq=False)
class Frames:
    """How many values, and bits of indices, every client of a shard sends in a round. Both sides know it beforehand."""

    counts: Integers
    index_bits: Integers
    value_bits: int | None = None
    """None: values travel in the precision of the problem."""
    absent: int = 0
    """Entries of x that nobody has to send down, because their clients do not answer."""
    _memo: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def total(self) -> int:
        """Values of all clients."""
        return int(self.counts.sum())

    def cost(self, told: int, value_bits: int) -> tuple[int, int]:
        """Bits of all frames, and of their payload, where every client tells that many bits beside its values."""
        key = told, value_bits
        if key not in self._memo:
            self._memo[key] = self._cost(told, value_bits if self.value_bits is None else self.value_bits)
        return self._memo[key]

    def _cost(self, told: int, value_bits: int) -> tuple[int, int]:
        payload = value_bits * self.total + int(self.index_bits.sum()) + told * len(self.counts)
        return int(frame_bits(self.counts, self.index_bits, value_bits, told).sum()), payload
