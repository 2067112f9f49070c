"""A v and A' s of a sparse matrix by rows, in float64: what Lanczos spends its time with. Both are quicker than scipy's."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from errorfeedback.core import Floats, Integers
from errorfeedback.problems.blocks.base import ONE
from errorfeedback.problems.blocks.csr import row_products


def times(A: sparse.csr_array, v: Floats) -> NDArray[np.float64]:
    """A v.

    >>> times(sparse.csr_array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]), np.array([1.0, 2.0, 3.0]))
    array([7., 6.])
    """
    out = np.empty(A.shape[0])
    row_products(A.data, _columns(A), A.indptr, v, out)
    return out


def transposed_times(A: sparse.csr_array, s: Floats) -> NDArray[np.float64]:
    """A' s.

    >>> transposed_times(sparse.csr_array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]), np.array([1.0, 2.0]))
    array([1., 6., 2.])
    """
    out = np.zeros(A.shape[1])
    _transposed_times(A.data, _columns(A), A.indptr, s, out)
    return out


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
