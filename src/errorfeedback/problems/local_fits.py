"""The minima of the clients' own problems, all clients at once: f_i on some or all of its rows, with a quadratic penalty.

Newton steps with conjugate gradients inside, shortened until the value falls enough (Armijo). After one that more than six
halvings had to shorten, as they must at the kinks of very long rows, the next goes by quadratics above the losses
(`Loss.above`). A client that is there waits for the others: what it finds is the same whoever they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import Floats, Integers, Lifted, PerClient, PerRow
from errorfeedback.problems.blocks.base import local_positions
from errorfeedback.problems.glm import GLM, per_client
from errorfeedback.problems.hessians import diagonals
from errorfeedback.sums import dot

CG, RESIDUAL = 40, 0.1
"""The most steps of conjugate gradients for a Newton step, and the share of the residual that ends them earlier."""
ARMIJO, HALVINGS, MOST_HALVINGS = 1e-4, 6, 40
LEVEL = 16 * np.finfo(np.float64).eps
"""Values that differ by less than that share of themselves are the same."""


@dataclass(frozen=True, eq=False)
class LocalFits:
    """min over w_i of sum_rows share * loss + (1/2) sum_j penalty_ij w_ij^2, for every client i; which rows, and with which
    penalty, is said anew every time."""

    rows: GLM

    def minima(
        self,
        shares: PerRow,
        penalty: Lifted,
        start: Lifted,
        steps: int,
        enough: PerClient,
        who: NDArray[np.bool_],
        beside: PerRow | float = 0.0,
    ) -> tuple[Lifted, PerRow]:
        """About where those of some clients are, and the predictions there (of rows without a share too), after so many
        Newton steps, or one that was to lower a client's value by no more than is `enough`. `beside`: what is predicted
        without w."""
        rows, s, counts = self.rows, self.rows.support, np.diff(self.rows.rows)
        w, z = start, rows.lifted @ start + beside
        value, live, kinked = self.values(shares, penalty, w, z), who.copy(), np.zeros_like(who)
        for _ in range(steps):
            if not live.any():
                break
            p, zp, slope = self._newton_step(shares, penalty, w, z, live, kinked)
            t = np.ones(rows.n)
            for _ in range(MOST_HALVINGS):
                there, seen = Lifted(w + s.repeat(PerClient(t)) * p), z + np.repeat(t, counts) * zp
                new = self.values(shares, penalty, there, seen)
                refused = live & ~(new <= value + ARMIJO * t * slope + LEVEL * np.abs(value))
                if not refused.any():
                    break
                t = np.where(refused, t / 2, t)
            went = live & ~refused
            w = Lifted(np.where(np.repeat(went, s.sizes), there, w))
            z = np.where(np.repeat(went, counts), seen, z)
            value = PerClient(np.where(went, new, value))
            late = live & (t <= 0.5**HALVINGS)
            live &= (late & ~kinked) | (went & (kinked | (-slope / 2 > enough)))
            kinked = late & ~kinked
        return w, z

    def values(self, shares: PerRow, penalty: Lifted, w: Lifted, z: PerRow) -> PerClient:
        return PerClient(self.losses(shares, z) + self.rows.support.sums(Lifted(penalty / 2 * w**2)))

    def losses(self, shares: PerRow, z: PerRow) -> PerClient:
        return per_client(self.rows.loss.values(z, self.rows.target) * shares, self.rows.rows)

    def bends(self, shares: PerRow, z: PerRow, kinked: NDArray[np.bool_] | None = None) -> PerRow:
        """The second derivatives of the losses where the predictions are z; of parabolas above them for the `kinked`."""
        bends = self.rows.loss.bends(z, self.rows.target)
        assert bends is not None, "who asks has looked whether it bends"
        if kinked is not None and kinked.any():
            bends = np.where(np.repeat(kinked, np.diff(self.rows.rows)), self.rows.loss.above(z, self.rows.target), bends)
        return bends * shares

    def diagonals(self, shares: PerRow, z: PerRow) -> Lifted:
        """Those of the Hessians there, without a penalty."""
        A, out = self.rows.lifted, Lifted(np.empty(self.rows.support.size))
        diagonals(A.data, A.indices, A.indptr, self.bends(shares, z), out)
        return out

    @cached_property
    def _at(self) -> Integers:
        """The place of every entry among its client's features; without a sign they are read faster."""
        return local_positions(self.rows.lifted, self.rows.support, self.rows.rows).astype(np.uint32)

    def _newton_step(
        self, shares: PerRow, penalty: Lifted, w: Lifted, z: PerRow, live: NDArray[np.bool_], kinked: NDArray[np.bool_]
    ) -> tuple[Lifted, PerRow, PerClient]:
        """About -(H_i + diag(penalty))^-1 g_i of every client that is not there yet, how predictions move along it, and the
        slope."""
        rows, slopes = self.rows, np.empty_like(z)
        rows.loss.slopes(z, rows.target, shares, slopes)
        p, zp, slope = Lifted(np.zeros_like(w)), np.zeros_like(z), PerClient(np.zeros(rows.n))
        A, pieces = rows.lifted, (rows.rows, rows.support.indptr)
        bends = self.bends(shares, z, kinked)
        _newton_steps(CG, RESIDUAL, A.data, self._at, A.indptr, *pieces, live, slopes, bends, penalty, w, p, zp, slope)
        return p, zp, slope


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _newton_steps(
    most: int,
    residual: float,
    data: Floats,
    at: Integers,
    indptr: Integers,
    rows: Integers,
    starts: Integers,
    live: NDArray[np.bool_],
    slopes: PerRow,
    bends: PerRow,
    penalty: Lifted,
    w: Lifted,
    p: Lifted,
    zp: PerRow,
    slope: PerClient,
) -> None:
    """One client after the other."""
    for i in range(len(rows) - 1):
        if live[i]:
            own, mine = slice(starts[i], starts[i + 1]), slice(rows[i], rows[i + 1])
            ends = indptr[rows[i] : rows[i + 1] + 1]
            slope[i] = newton_step(
                most, residual, data, at, ends, slopes[mine], bends[mine], penalty[own], w[own], p[own], zp[mine]
            )


@numba.njit(cache=True, nogil=True, error_model="numpy")
def newton_step(
    most: int,
    residual: float,
    data: Floats,
    at: Integers,
    indptr: Integers,
    slopes: PerRow,
    bends: PerRow,
    penalty: Floats,
    w: Floats,
    x: Floats,
    zx: PerRow,
) -> float:
    """x = about -(A' diag(bends) A + diag(penalty))^-1 (A' slopes + penalty w), zx = A x, for the rows A of one client; the
    slope along x. Conjugate gradients, preconditioned by the diagonal; x is zero before."""
    g, diagonal = penalty * w, penalty.copy()
    for row in range(len(slopes)):
        a, j = data[indptr[row] : indptr[row + 1]], at[indptr[row] : indptr[row + 1]]
        for k in range(len(a)):
            g[j[k]] += slopes[row] * a[k]
            diagonal[j[k]] += bends[row] * a[k] ** 2
    r = -g
    y = r / diagonal
    d, Hd, left = y.copy(), np.empty_like(y), dot(r, y)
    enough, taken = residual**2 * left, 0
    while taken < most and left > enough:
        _times_hessian(data, at, indptr, bends, penalty, d, Hd)
        curved = dot(d, Hd)
        if not curved > 0.0:
            break
        t = left / curved
        for k in range(len(d)):
            x[k] += t * d[k]
            r[k] -= t * Hd[k]
            y[k] = r[k] / diagonal[k]
        after = dot(r, y)
        t = after / left
        for k in range(len(d)):
            d[k] = y[k] + t * d[k]
        left, taken = after, taken + 1
    for row in range(len(zx)):
        a, j = data[indptr[row] : indptr[row + 1]], at[indptr[row] : indptr[row + 1]]
        along = 0.0
        for k in range(len(a)):
            along += a[k] * x[j[k]]
        zx[row] = along
    return dot(g, x)


@numba.njit(cache=True, nogil=True)
def _times_hessian(
    data: Floats, at: Integers, indptr: Integers, bends: PerRow, penalty: Floats, d: Floats, out: Floats
) -> None:
    """out = (A' diag(bends) A + diag(penalty)) d."""
    for k in range(len(d)):
        out[k] = penalty[k] * d[k]
    for row in range(len(bends)):
        if bends[row] != 0.0:
            a, j = data[indptr[row] : indptr[row + 1]], at[indptr[row] : indptr[row + 1]]
            along = 0.0
            for k in range(len(a)):
                along += a[k] * d[j[k]]
            along *= bends[row]
            for k in range(len(a)):
                out[j[k]] += along * a[k]
