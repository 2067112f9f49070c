"""Inner products on one core: no pool of threads has to wake up for them, and the same numbers give the same bits."""

from __future__ import annotations

import numba

from errorfeedback.core import Floats


@numba.njit(cache=True, nogil=True, fastmath=True)
def dot(u: Floats, v: Floats) -> float:
    """u'v."""
    total = 0.0
    for j in range(len(u)):
        total += u[j] * v[j]
    return total
