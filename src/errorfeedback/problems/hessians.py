"""The Hessians of generalised linear models: H_i = A_i' diag(share * loss'') A_i on J_i, as upper triangles (`pairs_of`)."""

from __future__ import annotations

import numba
import numpy as np

from errorfeedback.core import Floats, Integers, Lifted, PerRow


@numba.njit(cache=True, nogil=True)
def add_rows(
    data: Floats, indices: Integers, indptr: Integers, rows: Integers, segments: Integers, weights: PerRow, out: Lifted
) -> None:
    """out = sum over the rows of each client of weight * a a', its upper triangle row after row."""
    out[:] = 0.0
    start = 0
    for i in range(len(rows) - 1):
        first, size = segments[i], segments[i + 1] - segments[i]
        for row in range(rows[i], rows[i + 1]):
            for k in range(indptr[row], indptr[row + 1]):
                a, p = weights[row] * data[k], np.int64(indices[k]) - first
                for m in range(indptr[row], indptr[row + 1]):
                    q = np.int64(indices[m]) - first
                    if p <= q:
                        out[start + p * size - p * (p - 1) // 2 + q - p] += a * data[m]
        start += size * (size + 1) // 2


@numba.njit(cache=True, nogil=True)
def diagonals(data: Floats, indices: Integers, indptr: Integers, weights: PerRow, out: Lifted) -> None:
    """out = the diagonals of the same sums."""
    out[:] = 0.0
    for row in range(len(indptr) - 1):
        for k in range(indptr[row], indptr[row + 1]):
            out[indices[k]] += data[k] * data[k] * weights[row]


@numba.njit(cache=True, nogil=True)
def times_outer(out: Lifted, factors: Lifted, segments: Integers) -> None:
    """The entry at (p, q) of every client times factors[p] factors[q], in place."""
    at = 0
    for i in range(len(segments) - 1):
        for p in range(segments[i], segments[i + 1]):
            for q in range(p, segments[i + 1]):
                out[at] *= factors[p] * factors[q]
                at += 1
