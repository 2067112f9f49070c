"""What it takes to say once which of the columns a client owns (Golomb 1966, Rice 1979; as search engines do).

The columns of J_i ascend, so it is enough to say the gaps between them, g_k = j_k - j_(k-1) - 1 (j_0 = -1), each as g_k >> b
ones, a zero, and the b last binary digits of g_k; b, the same for all of a client, in 5 bits. Where a bit for every column
is shorter it is that, and b = 31 says so. At random places this is within a few percent of log2 of the number of sets of
that size.
"""

from __future__ import annotations

import numba
import numpy as np

from errorfeedback.core import Integers, PerClient

PARAMETER_BITS, EVERY_COLUMN = 5, 31


def list_bits(starts: Integers, columns: Integers, width: int) -> PerClient:
    """Of every client: its columns are columns[starts[i]:starts[i+1]], ascending, of `width` in all.

    >>> list_bits(np.array([0, 3, 5]), np.array([0, 1, 2, 4, 90]), 100).tolist()
    [8, 19]
    """
    coded = np.empty(len(starts) - 1, dtype=np.int64)
    _shortest(starts, columns, coded)
    return PerClient(PARAMETER_BITS + np.minimum(coded, width))


@numba.njit(cache=True, nogil=True)
def _shortest(starts: Integers, columns: Integers, out: Integers) -> None:
    for i in range(len(out)):
        out[i] = np.iinfo(np.int64).max
        for b in range(EVERY_COLUMN):
            bits, largest, before = 0, 0, -1
            for k in range(starts[i], starts[i + 1]):
                gap, before = columns[k] - before - 1, columns[k]
                bits, largest = bits + (gap >> b) + 1 + b, max(largest, gap)
            out[i] = min(out[i], bits)
            if not largest >> b:  # from here on every bit of b is one more
                break
