"""Pairs of features: the upper triangle of a client's matrix on J_i as a segment of a lifted space of its own.

Client i owns all pairs (j, k), j <= k, of its features. Pairs of R^d are numbered row after row of the upper triangle,
d (d + 1) / 2 of them; so the sum of the clients' matrices is the `scatter` of one lifted vector, as gradients are summed.
Where features are many (`apart`), there is no room for a number of every pair: pairs are numbered as they are told, one
client's after the other's, as if no two clients shared any.
"""

from __future__ import annotations

import numba
import numpy as np

from errorfeedback.core import Floats, Integers, Model
from errorfeedback.sparsity.support import Support

MANY = 1500
"""Features up to which the clients' matrices are summed."""


def apart(d: int) -> bool:
    """Whether there are so many features that the clients' matrices are kept apart."""
    return d > MANY


def pairs_of(support: Support) -> Support:
    """Who owns which pair.

    >>> pairs_of(Support(indptr=np.array([0, 2]), indices=np.array([0, 2]), d=3)).indices.tolist()
    [0, 2, 5]
    """
    lengths = support.sizes * (support.sizes + 1) // 2
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    if apart(support.d):
        numbers, once = np.arange(indptr[-1]), np.ones(indptr[-1], dtype=np.int64)
        return Support(indptr, numbers, d=len(numbers), first=support.first, counts=once, n_total=support.n_total)
    indices = np.empty(indptr[-1], dtype=np.int64)
    _number(support.indptr, support.indices, support.d, indices)
    count = support.d * (support.d + 1) // 2
    return Support(
        indptr=indptr,
        indices=indices,
        d=count,
        first=support.first,
        counts=np.bincount(indices, minlength=count),
        n_total=support.n_total,
    )


def symmetric(triangle: Model, d: int) -> Floats:
    """(d, d): the matrix whose upper triangle that is.

    >>> symmetric(Model(np.array([1.0, 2.0, 3.0])), 2).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    out = np.zeros((d, d))
    out[np.triu_indices(d)] = triangle
    return out + np.triu(out, 1).T


@numba.njit(cache=True, nogil=True)
def _number(indptr: Integers, features: Integers, d: int, out: Integers) -> None:
    at = 0
    for i in range(len(indptr) - 1):
        for p in range(indptr[i], indptr[i + 1]):
            j = np.int64(features[p])
            start = j * d - j * (j - 1) // 2 - j
            for q in range(p, indptr[i + 1]):
                out[at] = start + features[q]
                at += 1
