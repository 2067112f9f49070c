"""Short floats for telemetry and values: the leading bits of a float64 (sign, 11 bits of exponent, the rest digits).

The range of a float64 stays, so that nothing overflows on the way; with b bits the relative error is at most 2^(11 - b).
"""

from __future__ import annotations

import numpy as np

from errorfeedback.core import VALUE_BITS, Floats

HEAD = 12
"""Sign and exponent."""


def relative_error(bits: int) -> float:
    """The largest |shortened(v) - v| / |v|, for numbers that a float64 holds in full.

    >>> relative_error(16)
    0.03125
    """
    return float(2.0 ** (HEAD - 1 - bits))


def shortened(values: Floats, bits: int) -> Floats:
    """The values rounded to the nearest number of that many bits.

    >>> shortened(np.array([1.0, np.pi]), 20).tolist()
    [1.0, 3.140625]
    """
    if not HEAD < bits <= VALUE_BITS:
        raise ValueError(f"bits = {bits}; a short float has from {HEAD + 1} to {VALUE_BITS} bits")
    drop = VALUE_BITS - bits
    if not drop:
        return values.copy()
    patterns = np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
    half = np.uint64(1) << np.uint64(drop - 1)
    cut = ((patterns + half) >> np.uint64(drop)) << np.uint64(drop)
    return np.where(np.isfinite(values), cut.view(np.float64), values)
