"""Dual coordinate ascent on the clients' rows (SDCA: Shalev-Shwartz, Zhang 2013), for a loss that knows its conjugate.

A client at w with a penalty (l2/2)||w||^2 has dual variables u_r, one per row, with w = (1/l2) sum_r s_r u_r a_r over all
clients' rows, s_r the weight of row r in f. A step draws a row r of the client's own and maximises over u_r what CoCoA's
subproblem says of it, where w has moved by sigma times what this client's steps have done so far:

    u_r+ = argmax -loss*(-u) - (u - u_r) z - (q/2) (u - u_r)^2,   z = <a_r, w>,   q = sigma s_r ||a_r||^2/l2,

that is u_r+ = -loss'(z + q (u_r+ - u_r)). Each loss has the kernel of its own step; here is what they have in common.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import numba
import numpy as np

from errorfeedback.core import Floats, Integers, Lifted, PerRow
from errorfeedback.keyed import stream

Rows: TypeAlias = tuple[Floats, Integers, Integers]
"""data, indices, indptr of CSR rows at lifted positions."""
Keys: TypeAlias = tuple[int, int, int]
"""seed, round, first client."""
DUALS = -(2**43)
"""Client i draws its rows from the stream DUALS + i: apart from all other streams."""


class DualStep(ABC):
    """A loss that knows its step."""

    @abstractmethod
    def ascend(
        self, rows: Rows, ends: Integers, keys: Keys, epochs: int, weights: PerRow, b: PerRow, w: Lifted, dual: PerRow
    ) -> None:
        """`epochs` times as many steps as a client has rows, of all clients, in place; client i has the rows
        ends[i]:ends[i+1], `weights` are sigma s_r/l2."""


@numba.njit(cache=True, inline="always")
def first_draw(keys: Keys, i: int) -> np.uint64:
    """The state from which client i of the shard draws its rows."""
    return stream(keys[0], keys[1], DUALS + keys[2] + i)


@numba.njit(cache=True, inline="always")
def row_product(rows: Rows, row: int, w: Lifted) -> tuple[float, float]:
    """<a, w> and ||a||^2."""
    data, indices, indptr = rows
    z = length = 0.0
    for k in range(indptr[row], indptr[row + 1]):
        z += data[k] * w[indices[k]]
        length += data[k] * data[k]
    return z, length


@numba.njit(cache=True, inline="always")
def add_row(rows: Rows, row: int, factor: float, w: Lifted) -> None:
    """w += factor a."""
    data, indices, indptr = rows
    for k in range(indptr[row], indptr[row + 1]):
        w[indices[k]] += factor * data[k]
