"""Where features are many the server does not add the clients' Hessians up: a d x d matrix would have no room, and most of
it would be zeros. It keeps them apart, as it has heard them, and multiplies:

    M v = D (1/n) sum_i P_i' H_i P_i D v + diag v,

P_i v the coordinates on J_i of those who have told, in O(sum |J_i|^2), and solves with M by conjugate gradients,
preconditioned by its diagonal. Where rounding has left a direction in which M does not curve upwards, they end before it:
what they have found until then has v'Hv > 0 all the same, and is a direction of descent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf

import numba
import numpy as np

from errorfeedback.core import Floats, Integers, Lifted, Model
from errorfeedback.directions.quasi_newton import Metric
from errorfeedback.sparsity.support import Support
from errorfeedback.sums import dot

RESIDUAL, STEPS = 1e-3, 200
"""The share of the residual, in the norm of the preconditioner, that ends conjugate gradients, and the most steps."""
POWER = 10
"""Steps of the power method for the largest eigenvalue."""


@dataclass(frozen=True, eq=False)
class Apart(Metric):
    """(D mean D + diag)^-1 in the `units` in which Hessians are told."""

    units: Model
    grown: Floats
    """(d,): D."""
    diagonal: Floats
    """(d,): what is added: the penalty, and the damping."""
    tellers: Support
    """Whose Hessians these are."""
    triangles: Lifted
    """H_i / n, upper triangles one after the other."""

    def solve(self, v: Floats) -> Floats:
        return self.units * self._solved(self.units * v)

    def times(self, v: Floats) -> Floats:
        return self.product(v / self.units) / self.units

    def product(self, v: Floats) -> Floats:
        """M v."""
        out = np.zeros(len(v))
        add_products(self.tellers.indptr, self.tellers.indices, self.triangles, self.grown * v, out)
        out *= self.grown
        out += self.diagonal * v
        return out

    @cached_property
    def own_diagonal(self) -> Floats:
        """That of D (1/n) sum_i P_i' H_i P_i D."""
        sizes = self.tellers.sizes
        places = np.repeat(np.cumsum(sizes * (sizes + 1) // 2), sizes) - _from_the_end(self.tellers)
        return np.asarray(self.tellers.scatter(Lifted(self.triangles[places])) * self.grown**2)

    @cached_property
    def _preconditioner(self) -> Floats:
        """The diagonal of M; 1 where rounding has left none."""
        diagonal = self.own_diagonal + self.diagonal
        return np.where(diagonal > 0, diagonal, 1.0)

    def _solved(self, b: Floats) -> Floats:
        """M^-1 b."""
        x, r, size = np.zeros(len(b)), b.copy(), self._preconditioner
        z = r / size
        p, now = z, dot(r, z)
        goal = RESIDUAL**2 * now
        for step in range(STEPS):
            if not now > goal:
                break
            Mp = self.product(p)
            curved = dot(p, Mp)
            if not curved > 0:
                return x if step else z
            x += (now / curved) * p
            r -= (now / curved) * Mp
            z = r / size
            now, before = dot(r, z), now
            p = z + (now / before) * p
        return x

    @cached_property
    def largest(self) -> float:
        """The largest eigenvalue of M, or a little less."""
        v = self._preconditioner
        for _ in range(POWER):
            size = dot(v, v) ** 0.5
            if not 0 < size < inf:
                return size
            v = self.product(v / size)
        return dot(v, v) ** 0.5


def _from_the_end(support: Support) -> Integers:
    """How many entries a client's triangle has from the diagonal one of each of its features on."""
    left = np.repeat(support.indptr[1:], support.sizes) - np.arange(support.size)
    return np.asarray(left * (left + 1) // 2)


@numba.njit(cache=True, nogil=True, fastmath=True)
def add_products(indptr: Integers, features: Integers, triangles: Lifted, v: Floats, out: Floats) -> None:
    """out += sum_i P_i' H_i P_i v."""
    longest = 0
    for i in range(len(indptr) - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    own, total, at = np.empty(longest), np.empty(longest), 0
    for i in range(len(indptr) - 1):
        first, size = indptr[i], indptr[i + 1] - indptr[i]
        for p in range(size):
            own[p], total[p] = v[features[first + p]], 0.0
        for p in range(size):
            row, there, sums = triangles[at : at + size - p], own[p:size], total[p:size]
            along = 0.0
            for q in range(1, size - p):
                along += row[q] * there[q]
                sums[q] += row[q] * there[0]
            sums[0] += row[0] * there[0] + along
            at += size - p
        for p in range(size):
            out[features[first + p]] += total[p]
