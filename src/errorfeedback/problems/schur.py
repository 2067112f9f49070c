"""Hessians with a client's own features eliminated: H_xx - H_xw V, V = (H_ww + diag(p))^-1 H_wx, as sums of squares,

    (I; -V)' H (I; -V) + V' diag(p) V = sum over rows of weight * (a_x - V'a_w)(a_x - V'a_w)' + V' diag(p) V.

V is found column by column, by conjugate gradients on the rows themselves (`local_fits.newton_step`): H_ww is never made.
"""

from __future__ import annotations

from dataclasses import dataclass

import numba
import numpy as np
from scipy import sparse

from errorfeedback.core import Floats, Integers, Lifted, PerRow
from errorfeedback.problems.hessians import add_rows
from errorfeedback.problems.local_fits import newton_step
from errorfeedback.sparsity.support import Support

CG, RESIDUAL = 100, 1e-4
"""Steps of conjugate gradients for a column of V, and the share of the residual that ends them."""


@dataclass(frozen=True, eq=False)
class ClientRows:
    """The rows of some clients, client after client: places of columns are those within a client."""

    data: Floats
    at: Integers
    indptr: Integers
    rows: Integers
    """(n + 1,): client i has the rows rows[i]:rows[i+1]."""
    starts: Integers
    """(n + 1,): and the positions starts[i]:starts[i+1]."""

    @classmethod
    def of(cls, lifted: sparse.csr_array, support: Support, rows: Integers) -> ClientRows:
        firsts = np.repeat(support.indptr[:-1], np.diff(lifted.indptr[rows]))
        return cls(lifted.data, (lifted.indices - firsts).astype(np.uint32), lifted.indptr, rows, support.indptr)


def eliminated(shared: ClientRows, own: ClientRows, places: Integers, weights: PerRow, penalty: Lifted, out: Lifted) -> None:
    """out = the upper triangles of all clients; client i is the one of number `places[i]` of those with `own` features, -1
    where it has none. `weights` are those of all rows."""
    start = 0
    for i, k in enumerate(places):
        mine, a, b = slice(shared.rows[i], shared.rows[i + 1]), shared.starts[i], shared.starts[i + 1]
        size, rows = int(b - a), slice(shared.rows[i], shared.rows[i + 1] + 1)
        H = Lifted(out[start : start + size * (size + 1) // 2])
        start += len(H)
        if k < 0:
            every, all_ = np.array([0, mine.stop - mine.start]), np.array([0, size])
            add_rows(shared.data, shared.at, shared.indptr[rows], every, all_, weights[mine], H)
            continue
        theirs, penalties = slice(own.rows[k], own.rows[k + 1] + 1), penalty[own.starts[k] : own.starts[k + 1]]
        columns = np.zeros((size, mine.stop - mine.start))
        _fill(shared.data, shared.at, shared.indptr[rows], columns)
        V = np.zeros((size, len(penalties)))
        _eliminate(CG, RESIDUAL, own.data, own.at, own.indptr[theirs], weights[mine], penalties, columns, V)
        _add_squares(columns, weights[mine], V, penalties, H)


def along(own: ClientRows, k: int, weights: PerRow, penalty: Lifted, predictions: PerRow) -> PerRow:
    """What is left of the predictions of a client's shared features when its own take all they can from them."""
    theirs, penalties = slice(own.rows[k], own.rows[k + 1] + 1), penalty[own.starts[k] : own.starts[k + 1]]
    columns, V = predictions[None, :].copy(), np.zeros((1, len(penalties)))
    _eliminate(CG, RESIDUAL, own.data, own.at, own.indptr[theirs], weights, penalties, columns, V)
    return columns[0]


@numba.njit(cache=True, nogil=True)
def _fill(data: Floats, at: Integers, indptr: Integers, columns: Floats) -> None:
    """columns[p] = the column p of the rows."""
    for row in range(columns.shape[1]):
        for k in range(indptr[row], indptr[row + 1]):
            columns[at[k], row] += data[k]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _eliminate(
    most: int,
    residual: float,
    data: Floats,
    at: Integers,
    indptr: Integers,
    weights: PerRow,
    penalty: Floats,
    columns: Floats,
    V: Floats,
) -> None:
    """V[p] = (A' diag(weights) A + diag(penalty))^-1 A' diag(weights) columns[p], and columns[p] -= A V[p]."""
    nothing, slopes, taken = np.zeros_like(penalty), np.empty_like(weights), np.empty_like(weights)
    for p in range(len(columns)):
        for row in range(len(weights)):
            slopes[row] = -weights[row] * columns[p, row]
        newton_step(most, residual, data, at, indptr, slopes, weights, penalty, nothing, V[p], taken)
        columns[p] -= taken


@numba.njit(cache=True, nogil=True)
def _add_squares(columns: Floats, weights: PerRow, V: Floats, penalty: Floats, out: Lifted) -> None:
    """out = columns diag(weights) columns' + V diag(penalty) V', its upper triangle row after row."""
    place = 0
    for p in range(len(columns)):
        for q in range(p, len(columns)):
            total = 0.0
            for row in range(len(weights)):
                total += weights[row] * columns[p, row] * columns[q, row]
            for j in range(len(penalty)):
                total += penalty[j] * V[p, j] * V[q, j]
            out[place] = total
            place += 1
