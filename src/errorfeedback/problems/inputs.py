"""What a model is made of, checked before anything is computed: rows, targets, weights, clients."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse

from errorfeedback.core import Integers, PerRow, precision
from errorfeedback.problems.partition import Rows

Matrix = Any
"""numpy (rows, d), or anything of scipy.sparse."""


def checked_weights(sample_weight: ArrayLike, dealt: Rows) -> PerRow:
    """The weights of the dealt rows. The mean over clients of f_i = n sum_rows w loss / (the sum of all w) is the weighted
    mean over rows."""
    given = np.asarray(sample_weight, dtype=np.float64)
    total = len(dealt.order) + dealt.discarded
    if given.shape != (total,):
        raise ValueError(f"sample_weight has shape {given.shape}, but A has {total} rows; give one weight per row")
    check_finite("sample_weight", given)
    w = given[dealt.order]
    if (w < 0).any() or not w.sum() > 0:
        raise ValueError("sample weights must not be negative, and their sum must be above 0")
    return w


def as_csr(A: Matrix, intercept: bool, dtype: DTypeLike) -> sparse.csr_array:
    """A in CSR with sorted rows, without stored zeros, as the caller's arrays are never changed."""
    shape = np.shape(A)
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"A has shape {shape}; it needs rows and columns, (rows, d)")
    matrix = sparse.csr_array(A, dtype=precision(dtype), copy=sparse.issparse(A))
    if matrix.nnz and not 0 <= matrix.indices.min() <= matrix.indices.max() < shape[1]:
        wrong = int(matrix.indices[np.argmax((matrix.indices < 0) | (matrix.indices >= shape[1]))])
        raise ValueError(f"A stores an entry in column {wrong}; it has {shape[1]}, from 0 on")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if not np.isfinite(matrix.data).all():
        k = int(np.flatnonzero(~np.isfinite(matrix.data))[0])
        row = int(np.searchsorted(matrix.indptr, k, side="right")) - 1
        raise ValueError(f"A[{row}, {matrix.indices[k]}] = {matrix.data[k]}; every entry must be finite")
    if intercept:
        matrix = sparse.csr_array(sparse.hstack([matrix, np.ones((shape[0], 1), dtype=matrix.dtype)], format="csr"))
    return matrix


def check_finite(name: str, values: PerRow) -> None:
    if not np.isfinite(values).all():
        k = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(f"{name}[{k}] = {values[k]}; every value must be finite")


def check_clients(dealt: Rows, entries: Integers) -> None:
    empty = np.flatnonzero(np.diff(entries) == 0)
    if len(empty):
        i = int(empty[0])
        raise ValueError(
            f"client {dealt.names[i]} owns no feature: its {dealt.indptr[i + 1] - dealt.indptr[i]} rows are all zero "
            f"({len(empty)} such client{'s' * (len(empty) > 1)}); drop it, merge it with another, or use intercept=True"
        )
