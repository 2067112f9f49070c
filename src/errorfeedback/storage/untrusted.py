"""Matrices from files that may be damaged or made to harm: every index is checked before a kernel follows it.

In the layout CSR (CSC, BSR) row i has the entries indptr[i], ..., indptr[i+1] - 1, so that 0 = indptr[0] <= indptr[1] <= ...
must hold. scipy's own check does not look where the last one is not positive, or where a difference overflows.
"""

from __future__ import annotations

from typing import Any


def check_compressed(matrix: Any) -> None:
    """Refuse a CSR, CSC or BSR matrix with an index out of range.

    >>> from scipy import sparse
    >>> matrix = sparse.csr_array(([1.0], [0], [0, 9, -1]), shape=(2, 3))
    >>> matrix.check_format(full_check=True)
    >>> check_compressed(matrix)
    Traceback (most recent call last):
        ...
    ValueError: indptr must start at 0 and not fall
    """
    pointers = matrix.indptr
    if not len(pointers) or pointers[0] != 0 or (pointers[1:] < pointers[:-1]).any():
        raise ValueError("indptr must start at 0 and not fall")
    matrix.check_format(full_check=True)
