"""How values travel: a few bits for each, and a *unit* for every block of them where they are counted in one.

Both sides of a run know the coding; it is not on the wire. What a message holds are the numbers that the other side will
find, so that both go on with the same bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import Floats, Integers

Patterns = NDArray[np.uint64]
"""Numbers as bits, to the right."""
EVERYTHING = 2**62
"""The length of a block that no client's values exceed."""
NO_UNITS = np.empty(0)


@dataclass(frozen=True)
class Coding(ABC):
    """Values of a client, in the order in which they are sent, in blocks of `length`."""

    unit_bits: ClassVar[int] = 0
    """Bits of a block's unit."""

    @property
    def length(self) -> int:
        """Values that share a unit."""
        return EVERYTHING

    @abstractmethod
    def mark(self, dtype: np.dtype[Any]) -> int:
        """What the first byte of a frame says of the values, from 0 to 15."""

    @abstractmethod
    def width(self, precision: int) -> int:
        """Bits of a value, in a problem of that precision (in bits)."""

    def blocks(self, counts: NDArray[Any]) -> NDArray[Any]:
        """How many units so many values of a client have."""
        return -(-counts // self.length) * (self.unit_bits > 0)

    def bits(self, counts: NDArray[Any], precision: int) -> NDArray[Any]:
        """What so many values of a client take."""
        return self.width(precision) * counts + self.unit_bits * self.blocks(counts)

    @abstractmethod
    def rounded(self, values: Floats, counts: Integers) -> tuple[Floats, Floats]:
        """The values as the other side will find them, where clients have so many each, and the units of their blocks."""

    @abstractmethod
    def encoded(self, values: Floats, units: Floats, counts: Integers) -> tuple[Patterns, Patterns]:
        """What `rounded` made, as bits: values, and units."""

    @abstractmethod
    def decoded(self, values: Patterns, units: Patterns, counts: Integers, dtype: np.dtype[Any]) -> Floats:
        """The values again."""

    def units(self, patterns: Patterns) -> Floats:
        """The units again."""
        return NO_UNITS


@dataclass(frozen=True)
class FullPrecision(Coding):
    """As they are, in the precision of the problem."""

    def mark(self, dtype: np.dtype[Any]) -> int:
        return int(dtype.itemsize < 8)

    def width(self, precision: int) -> int:
        return precision

    def rounded(self, values: Floats, counts: Integers) -> tuple[Floats, Floats]:
        return values, NO_UNITS

    def encoded(self, values: Floats, units: Floats, counts: Integers) -> tuple[Patterns, Patterns]:
        word = np.dtype(f"u{values.itemsize}")
        return np.ascontiguousarray(values).view(word).astype(np.uint64, copy=False), NO_UNITS.view(np.uint64)

    def decoded(self, values: Patterns, units: Patterns, counts: Integers, dtype: np.dtype[Any]) -> Floats:
        return values.astype(np.dtype(f"u{dtype.itemsize}"), copy=False).view(dtype)


FULL = FullPrecision()
