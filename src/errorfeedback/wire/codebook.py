"""Few bits for a value: a sign and a small float that counts in a unit, one unit for every block of values.

With b bits, one of them the sign and m of them digits, the levels are the whole numbers with at most m + 1 binary digits,

    0, 1, ..., 2^m - 1,   (2^m + f) 2^e   for 0 <= f < 2^m and 0 <= e <= 2^(b-1-m) - 2,

and a value is +- level x unit. m = 0 gives powers of two, m = b - 2 equally spaced levels; between them the relative error
is at most 1/(2^(m+1) + 1) over many powers of two. The nearest level is taken; half way between two, the larger.

The unit of a block is its largest magnitude over the top level, rounded *up* to 5 digits: 11 bits of exponent and the
digits are 16 bits. At most 2^-5 of the range is given away, and the largest entry is never cut off. Level x unit has at
most m + 7 digits and is exact in float64. In float32, where it may be rounded, its level can still be read from it (m is at
most 22, so that half a unit of its last digit is more than 2^-24 of it). Both sides find the same bits, whatever machine
they are on.

A block of zeros has the unit 0. A block with a number that is not finite has the unit NaN, and all of it becomes NaN: a
run that diverges says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numba
import numpy as np

from errorfeedback.core import Floats, Integers
from errorfeedback.wire.coding import EVERYTHING, Coding, Patterns

UNIT_DIGITS = 5
EXCESS = 2.0**-UNIT_DIGITS
"""A unit is at most that share larger than it needs to be."""
DIGITS, BIAS, SIGN = 52, 1023, 63
"""A float64: digits after the first, the exponent of 1, the place of the sign."""
CUT = DIGITS - UNIT_DIGITS
"""Bits of a float64 that a unit does without."""
MOST_BITS, MOST_EXPONENT = 24, 8
LEAST = {np.dtype(np.float64): 2.0**-1022, np.dtype(np.float32): 2.0**-144}
"""Multiples of such a unit are exact; a smaller one is taken for it."""


@dataclass(frozen=True)
class Codebook(Coding):
    """`each`: bits of a value; `digits`: how many of them are digits; `block`: values that share a unit (None: all).

    >>> Codebook(each=4, digits=0).levels.tolist()
    [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0]
    >>> Codebook(each=4, digits=2).levels.tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    >>> Codebook(each=4, digits=1).levels.tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0]
    >>> Codebook(each=4, digits=0).rounded(np.array([64.0, -47.0, 3.0, 0.4]), np.array([4]))
    (array([ 64., -32.,   4.,   0.]), array([1.]))
    """

    each: int
    digits: int
    block: int | None = None
    unit_bits: ClassVar[int] = 11 + UNIT_DIGITS

    def __post_init__(self) -> None:
        for name in ("each", "digits", "block"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, (int, np.integer, type(None))):
                raise ValueError(f"{name} = {number!r}; it must be a whole number")
        if self.each is None or not 2 <= self.each <= MOST_BITS:
            raise ValueError(f"bits = {self.each}; a value in few bits has from 2 to {MOST_BITS}")
        if self.digits is None or not 0 <= self.digits <= self.each - 2:
            raise ValueError(f"digits = {self.digits}; of {self.each} bits at most {self.each - 2} can be digits")
        if self.each - 1 - self.digits > MOST_EXPONENT:
            raise ValueError(f"bits = {self.each}; at most {MOST_EXPONENT} of them are for an exponent")
        if self.block is not None and self.block < 1:
            raise ValueError(f"block = {self.block}; a block has at least one value")

    @property
    def length(self) -> int:
        return EVERYTHING if self.block is None else int(self.block)

    @property
    def levels(self) -> Floats:
        """All levels, ascending, in units."""
        codes = np.arange(2 ** (self.each - 1))
        exponents = np.maximum((codes >> self.digits) - 1, 0)
        return np.ldexp((codes - (exponents << self.digits)).astype(np.float64), exponents)

    @cached_property
    def top(self) -> float:
        """The largest level."""
        return level_of(2 ** (self.each - 1) - 1, self.digits)

    def mark(self, dtype: np.dtype[Any]) -> int:
        return MARKS.get((self.each, self.digits), 3) if self.block is None else 3

    def width(self, precision: int) -> int:
        return self.each

    def rounded(self, values: Floats, counts: Integers) -> tuple[Floats, Floats]:
        out, units = values.copy(), np.empty(int(self.blocks(counts).sum()))
        round_blocks(out, counts, self.length, self.top, self.digits, LEAST[out.dtype], units)
        return out, units

    def near(self, values: Floats, largest: float) -> Floats:
        """Some values of a block whose largest magnitude is that, as `rounded` makes them."""
        out = values.copy()
        round_block(out, largest, self.top, self.digits, LEAST[out.dtype])
        return out

    def unit(self, largest: float, dtype: np.dtype[Any]) -> float:
        """Of a block with that largest magnitude."""
        return float(unit_for(largest, self.top, LEAST[dtype]))

    def landing(self, steps: Floats, x: Floats, unit: float) -> Floats:
        """How x moves by steps in this unit: by -x, to exactly 0, where -x would be rounded to the same step."""
        back = -x
        round_to(back, unit, self.digits)
        return np.where((steps == back) & (np.abs(x) <= self.top * unit), -x, steps)

    def encoded(self, values: Floats, units: Floats, counts: Integers) -> tuple[Patterns, Patterns]:
        codes = np.empty(len(values), dtype=np.uint64)
        _encode_blocks(values, counts, self.length, units, self.top, self.digits, self.each - 1, codes)
        return codes, units.view(np.uint64) >> np.uint64(CUT)

    def decoded(self, values: Patterns, units: Patterns, counts: Integers, dtype: np.dtype[Any]) -> Floats:
        out = np.empty(len(values), dtype=dtype)
        _decode_blocks(values, counts, self.length, self.units(units), self.digits, self.each - 1, out)
        return out

    def units(self, patterns: Patterns) -> Floats:
        return np.asarray((patterns << np.uint64(CUT)).view(np.float64))


MENU = tuple(Codebook(*form) for form in ((4, 0), (5, 1), (6, 2), (7, 3), (8, 3), (10, 5), (12, 7), (16, 9), (24, 17)))
"""What a downlink chooses from, from coarse to fine: every digit more halves the relative error."""
MARKS = {(coding.each, coding.digits): 4 + k for k, coding in enumerate(MENU)}
"""Each has a mark of its own."""


@numba.njit(cache=True, nogil=True)
def pattern_of(number: float) -> np.int64:
    """The bits of a float64."""
    return np.float64(number).view(np.int64)


@numba.njit(cache=True, nogil=True)
def float_of(pattern: np.int64) -> float:
    """The float64 of these bits."""
    return np.int64(pattern).view(np.float64)


@numba.njit(cache=True, nogil=True)
def unit_for(largest: float, top: float, least: float) -> float:
    """largest/top, rounded up to the digits of a unit; NaN where the largest is not finite."""
    if not largest < np.inf:
        return np.nan
    if largest == 0.0:
        return 0.0
    beyond = (np.int64(1) << CUT) - 1
    return max(float_of((pattern_of(largest / top) + beyond) & ~beyond), least)


@numba.njit(cache=True, nogil=True)
def level_of(code: int | np.int64, digits: int) -> float:
    """The level of this number, from 0 on."""
    exponent = max((code >> digits) - 1, 0)
    return np.float64(code - (exponent << digits)) * float_of(np.int64(BIAS + exponent) << DIGITS)


@numba.njit(cache=True, nogil=True)
def nearest_level(q: float, digits: int) -> float:
    """The level nearest to q >= 0, the larger one half way between two."""
    drop = DIGITS - digits
    half = np.int64(1) << (drop - 1)
    many = float_of(((pattern_of(q) + half) >> drop) << drop)
    return np.floor(q + 0.5) if q < np.int64(1) << digits else many


@numba.njit(cache=True, nogil=True, error_model="numpy")
def round_block(values: Floats, largest: float, top: float, digits: int, least: float) -> float:
    """Round the values of a block, in place; its unit."""
    unit = unit_for(largest, top, least)
    round_to(values, unit, digits)
    return unit


@numba.njit(cache=True, nogil=True, error_model="numpy")
def round_to(values: Floats, unit: float, digits: int) -> None:
    """Round to levels of this unit, in place."""
    per_unit = 1.0 / unit if unit > 0.0 else 0.0
    for p in range(len(values)):
        level = nearest_level(abs(values[p]) * per_unit, digits)
        values[p] = np.copysign(level * unit, values[p]) + 0.0  # no zero has a sign


@numba.njit(cache=True, nogil=True)
def round_blocks(
    values: Floats, counts: Integers, length: int, top: float, digits: int, least: float, units: Floats
) -> None:
    """Every block of every client's values, in place."""
    first = k = 0
    for i in range(len(counts)):
        for lo in range(first, first + counts[i], length):
            block = values[lo : min(lo + length, first + counts[i])]
            largest = np.int64(0)
            for p in range(len(block)):  # the bits of numbers are ordered as the numbers are, and NaN is above all
                largest = max(largest, pattern_of(abs(block[p])))
            units[k] = round_block(block, float_of(largest), top, digits, least)
            k += 1
        first += counts[i]


@numba.njit(cache=True, nogil=True)
def _encode_blocks(
    values: Floats, counts: Integers, length: int, units: Floats, top: float, digits: int, sign: int, codes: Patterns
) -> None:
    """sign and number of the level of every value; `sign`: the place of its bit."""
    first = k = 0
    below = np.int64(BIAS + digits - 1) << digits
    for i in range(len(counts)):
        for lo in range(first, first + counts[i], length):
            unit = units[k]
            k += 1
            for p in range(lo, min(lo + length, first + counts[i])):
                q = min(abs(np.float64(values[p])) / unit, top) if unit > 0.0 else 0.0
                level = nearest_level(q, digits)
                many = (pattern_of(level) >> (DIGITS - digits)) - below
                number = np.int64(level) if level < np.int64(1) << digits else many
                codes[p] = np.uint64(number & ((np.int64(1) << sign) - 1)) | np.uint64(values[p] < 0.0) << np.uint64(sign)
        first += counts[i]


@numba.njit(cache=True, nogil=True)
def _decode_blocks(
    codes: Patterns, counts: Integers, length: int, units: Floats, digits: int, sign: int, values: Floats
) -> None:
    first = k = 0
    negative = np.int64(1) << sign
    for i in range(len(counts)):
        for lo in range(first, first + counts[i], length):
            unit = units[k]
            k += 1
            for p in range(lo, min(lo + length, first + counts[i])):
                code = np.int64(codes[p])
                size = level_of(code & (negative - 1), digits) * unit
                values[p] = size if code < negative else -size
        first += counts[i]
