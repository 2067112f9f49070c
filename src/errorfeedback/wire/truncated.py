"""Truncated floats, for numbers that need few digits: the leading bits of a float64 (sign, 11 bits of exponent, digits).

The range of a float64 stays, so that nothing overflows on the way; with b bits the relative error is at most 2^(11 - b).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import VALUE_BITS, Floats, Integers
from errorfeedback.wire.coding import NO_UNITS, Coding, Patterns

HEAD = 12
"""Sign and exponent."""
FLOAT32_DIGITS = 23


def relative_error(bits: int) -> float:
    """The largest |truncated(v) - v| / |v|, for numbers that a float64 holds in full.

    >>> relative_error(16)
    0.03125
    """
    return float(2.0 ** (HEAD - 1 - bits)) if bits < VALUE_BITS else 0.0


def all_digits(value_bits: int) -> int:
    """The bits that keep every digit of a value of the run: those of a float32 take 3 more beside a float64's exponent.

    >>> all_digits(64), all_digits(32)
    (64, 35)
    """
    return VALUE_BITS if value_bits == VALUE_BITS else HEAD + FLOAT32_DIGITS


def truncated(values: Floats, bits: int) -> Floats:
    """The values rounded to the nearest number of that many bits.

    >>> truncated(np.array([1.0, np.pi]), 20).tolist()
    [1.0, 3.140625]
    """
    check_width(bits)
    drop = VALUE_BITS - bits
    if not drop:
        return values.copy()
    patterns = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    half = np.uint64(1) << np.uint64(drop - 1)
    cut = ((patterns + half) >> np.uint64(drop)) << np.uint64(drop)
    return np.where(np.isfinite(values), cut.view(np.float64), values)


def check_width(bits: int) -> None:
    """Raise where no truncated float has so many bits."""
    if isinstance(bits, bool) or not isinstance(bits, (int, np.integer)) or not HEAD < bits <= VALUE_BITS:
        raise ValueError(f"bits = {bits!r}; a truncated float has from {HEAD + 1} to {VALUE_BITS} bits")


@dataclass(frozen=True)
class TruncatedFloats(Coding):
    """Every value by itself, rounded to so many bits.

    >>> TruncatedFloats(20).rounded(np.array([1.0, np.pi]), np.array([2]))[0].tolist()
    [1.0, 3.140625]
    """

    each: int

    def __post_init__(self) -> None:
        check_width(self.each)
        object.__setattr__(self, "each", int(self.each))

    @property
    def relative_error(self) -> float:
        """The largest error of a value, relative to it."""
        return relative_error(self.each)

    def mark(self, dtype: np.dtype[Any]) -> int:
        return 2

    def width(self, precision: int) -> int:
        return self.each

    def rounded(self, values: Floats, counts: Integers) -> tuple[Floats, Floats]:
        with np.errstate(over="ignore"):
            return truncated(values, self.each).astype(values.dtype, copy=False), NO_UNITS

    def encoded(self, values: Floats, units: Floats, counts: Integers) -> tuple[Patterns, Patterns]:
        whole = values.astype(np.float64).view(np.uint64)
        return whole >> np.uint64(VALUE_BITS - self.each), NO_UNITS.view(np.uint64)

    def decoded(self, values: Patterns, units: Patterns, counts: Integers, dtype: np.dtype[Any]) -> Floats:
        with np.errstate(over="ignore"):
            return (values << np.uint64(VALUE_BITS - self.each)).view(np.float64).astype(dtype, copy=False)


def patterns(numbers: Floats, widths: Integers) -> NDArray[np.uint64]:
    """(n, k): the leading bits of every number of column k, to the right; column k has widths[k] of them."""
    return np.ascontiguousarray(numbers, dtype=np.float64).view(np.uint64) >> (VALUE_BITS - widths).astype(np.uint64)


def numbers(patterns: NDArray[np.uint64], widths: Integers) -> Floats:
    """The numbers again.

    >>> widths = np.array([20])
    >>> numbers(patterns(np.array([[1.0], [3.140625]]), widths), widths).ravel().tolist()
    [1.0, 3.140625]
    """
    return (patterns << (VALUE_BITS - widths).astype(np.uint64)).view(np.float64)
