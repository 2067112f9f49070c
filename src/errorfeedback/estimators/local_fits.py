"""The minima of the clients' own problems, all clients at once: f_i on some or all of its rows, with a quadratic penalty.

Newton steps with conjugate gradients inside, shortened until the value falls enough (Armijo). A client that is there waits
for the others: what it finds is the same whoever they are.
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
from errorfeedback.sums import dot

CG, RESIDUAL = 40, 0.1
"""The most steps of conjugate gradients for a Newton step, and the share of the residual that ends them earlier."""
ARMIJO, HALVINGS = 1e-4, 6


@dataclass(frozen=True, eq=False)
class LocalFits:
    """min over w_i of sum_rows share * loss + (1/2) sum_j penalty_ij w_ij^2, for every client i; which rows, and with which
    penalty, is said anew every time."""

    rows: GLM

    def minima(
        self, shares: PerRow, penalty: Lifted, start: Lifted, steps: int, enough: PerClient, who: NDArray[np.bool_]
    ) -> tuple[Lifted, PerRow]:
        """About where those of some clients are, and the predictions there (of rows without a share too), after so many
        Newton steps, or one that was to lower a client's value by no more than is `enough`."""
        rows, s, counts = self.rows, self.rows.support, np.diff(self.rows.rows)
        w, z = start, rows.lifted @ start
        value, live = self.values(shares, penalty, w, z), who.copy()
        for _ in range(steps):
            if not live.any():
                break
            p, zp, slope = self._newton_step(shares, penalty, w, z, live)
            t = np.ones(rows.n)
            for _ in range(HALVINGS):
                there, seen = Lifted(w + s.repeat(PerClient(t)) * p), z + np.repeat(t, counts) * zp
                new = self.values(shares, penalty, there, seen)
                refused = live & ~(new <= value + ARMIJO * t * slope)
                if not refused.any():
                    break
                t = np.where(refused, t / 2, t)
            live &= ~refused
            w = Lifted(np.where(np.repeat(live, s.sizes), there, w))
            z = np.where(np.repeat(live, counts), seen, z)
            value = PerClient(np.where(live, new, value))
            live &= -slope / 2 > enough
        return w, z

    def values(self, shares: PerRow, penalty: Lifted, w: Lifted, z: PerRow) -> PerClient:
        return PerClient(self.losses(shares, z) + self.rows.support.sums(Lifted(penalty / 2 * w**2)))

    def losses(self, shares: PerRow, z: PerRow) -> PerClient:
        return per_client(self.rows.loss.values(z, self.rows.target) * shares, self.rows.rows)

    def bends(self, shares: PerRow, z: PerRow) -> PerRow:
        """The second derivatives of the losses where the predictions are z."""
        bends = self.rows.loss.bends(z, self.rows.target)
        assert bends is not None, "who asks has looked whether it bends"
        return bends * shares

    @cached_property
    def _at(self) -> Integers:
        """The place of every entry among its client's features; without a sign they are read faster."""
        return local_positions(self.rows.lifted, self.rows.support, self.rows.rows).astype(np.uint32)

    def _newton_step(
        self, shares: PerRow, penalty: Lifted, w: Lifted, z: PerRow, live: NDArray[np.bool_]
    ) -> tuple[Lifted, PerRow, PerClient]:
        """About -(H_i + diag(penalty))^-1 g_i of every client that is not there yet, how predictions move along it, and the
        slope."""
        rows, slopes = self.rows, np.empty_like(z)
        rows.loss.slopes(z, rows.target, shares, slopes)
        p, zp, slope = Lifted(np.zeros_like(w)), np.zeros_like(z), PerClient(np.zeros(rows.n))
        A, pieces = rows.lifted, (rows.rows, rows.support.indptr)
        bends = self.bends(shares, z)
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
    """Conjugate gradients, preconditioned by the diagonal, for one client after the other."""
    for i in range(len(rows) - 1):
        if not live[i]:
            continue
        own = slice(starts[i], starts[i + 1])
        g, diagonal = penalty[own] * w[own], penalty[own].copy()
        for row in range(rows[i], rows[i + 1]):
            a, j = data[indptr[row] : indptr[row + 1]], at[indptr[row] : indptr[row + 1]]
            for k in range(len(a)):
                g[j[k]] += slopes[row] * a[k]
                diagonal[j[k]] += bends[row] * a[k] ** 2
        x, r = p[own], -g
        y = r / diagonal
        d, left = y.copy(), dot(r, y)
        enough = residual**2 * left
        for _ in range(most):
            Hd = penalty[own] * d
            for row in range(rows[i], rows[i + 1]):
                if bends[row] != 0.0:
                    a, j = data[indptr[row] : indptr[row + 1]], at[indptr[row] : indptr[row + 1]]
                    moved = 0.0
                    for k in range(len(a)):
                        moved += a[k] * d[j[k]]
                    moved *= bends[row]
                    for k in range(len(a)):
                        Hd[j[k]] += moved * a[k]
            curved = dot(d, Hd)
            if not (left > enough and curved > 0.0):
                break
            x += left / curved * d
            r -= left / curved * Hd
            y = r / diagonal
            after = dot(r, y)
            d = y + after / left * d
            left = after
        slope[i] = dot(g, x)
        for row in range(rows[i], rows[i + 1]):
            for k in range(indptr[row], indptr[row + 1]):
                zp[row] += data[k] * x[at[k]]
