"""Products with the rows of a problem, in float64: what Lanczos spends its time with. They are quicker than scipy's."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from errorfeedback.core import Floats, Integers
from errorfeedback.problems.base import CurvatureBound
from errorfeedback.problems.blocks.base import FAR, ONE
from errorfeedback.problems.blocks.csr import row_products
from errorfeedback.sparsity.support import Support

NO_WEIGHTS = np.empty(0)


def times(A: sparse.csr_array, v: Floats) -> NDArray[np.float64]:
    """A v.

    >>> times(sparse.csr_array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]), np.array([1.0, 2.0, 3.0]))
    array([7., 6.])
    """
    out = np.empty(A.shape[0])
    row_products(A.data, _columns(A), A.indptr, 0, len(out), v, out, v.nbytes >= FAR)
    return out


def transposed_times(A: sparse.csr_array, s: Floats) -> NDArray[np.float64]:
    """A' s.

    >>> transposed_times(sparse.csr_array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]), np.array([1.0, 2.0]))
    array([1., 6., 2.])
    """
    out = np.zeros(A.shape[1])
    _transposed_times(A.data, _columns(A), A.indptr, s, out)
    return out


def squares_times(k: CurvatureBound, support: Support, v: Floats, weights: Floats = NO_WEIGHTS) -> NDArray[np.float64]:
    """sum_i H_i diag(weights) H_i v, for H_i = A_i' diag(w) A_i; one weight per position of the lifted space, or none."""
    s, own = k.weights * times(k.A, v), np.empty(support.r)
    _there_and_back(k.lifted.data, _columns(k.lifted), k.lifted.indptr, k.rows, support.indptr, weights, own, s)
    return transposed_times(k.A, k.weights * s)


def _columns(A: sparse.csr_array) -> NDArray[Any]:
    unsigned: NDArray[Any] = A.indices.view(f"u{A.indices.itemsize}")
    return unsigned


@numba.njit(cache=True, nogil=True)
def _transposed_times(data: Floats, columns: Integers, indptr: Integers, s: Floats, out: Floats) -> None:
    k = np.uint64(0)
    for r in range(len(indptr) - 1):
        stop, factor = np.uint64(indptr[r + 1]), s[r]
        while k < stop:
            out[columns[k]] += factor * data[k]
            k += ONE


@numba.njit(cache=True, nogil=True)
def _there_and_back(
    data: Floats,
    positions: Integers,
    indptr: Integers,
    rows: Integers,
    segments: Integers,
    weights: Floats,
    own: Floats,
    s: Floats,
) -> None:
    """s = A_i diag(weights) A_i' s for every client."""
    for i in range(len(rows) - 1):
        start, size = np.uint64(segments[i]), segments[i + 1] - segments[i]
        own[:size] = 0.0
        k = np.uint64(indptr[rows[i]])
        for r in range(rows[i], rows[i + 1]):
            stop, factor = np.uint64(indptr[r + 1]), s[r]
            while k < stop:
                own[positions[k] - start] += factor * data[k]
                k += ONE
        if len(weights):
            for p in range(size):
                own[p] *= weights[segments[i] + p]
        k = np.uint64(indptr[rows[i]])
        for r in range(rows[i], rows[i + 1]):
            stop, total = np.uint64(indptr[r + 1]), 0.0
            while k < stop:
                total += data[k] * own[positions[k] - start]
                k += ONE
            s[r] = total
