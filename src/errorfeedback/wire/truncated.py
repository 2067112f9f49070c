"""Truncated floats, for numbers that need few digits: the leading bits of a float64 (sign, 11 bits of exponent, digits).

The range of a float64 stays, so that nothing overflows on the way; with b bits the relative error is at most 2^(11 - b).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import VALUE_BITS, Floats, Integers

HEAD = 12
"""Sign and exponent."""


def relative_error(bits: int) -> float:
    """The largest |truncated(v) - v| / |v|, for numbers that a float64 holds in full.

    >>> relative_error(16)
    0.03125
    """
    return float(2.0 ** (HEAD - 1 - bits))


def truncated(values: Floats, bits: int) -> Floats:
    """The values rounded to the nearest number of that many bits.

    >>> truncated(np.array([1.0, np.pi]), 20).tolist()
    [1.0, 3.140625]
    """
    if not HEAD < bits <= VALUE_BITS:
        raise ValueError(f"bits = {bits}; a truncated float has from {HEAD + 1} to {VALUE_BITS} bits")
    drop = VALUE_BITS - bits
    if not drop:
        return values.copy()
    patterns = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    half = np.uint64(1) << np.uint64(drop - 1)
    cut = ((patterns + half) >> np.uint64(drop)) << np.uint64(drop)
    return np.where(np.isfinite(values), cut.view(np.float64), values)


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
