"""||A_i' diag(w) A_i|| of every client, from above.

Clients with few rows or few features get a dense eigenvalue of the smaller of their two Gram matrices. Large clients run
Lanczos (see `spectrum`) *together*: one product with the lifted matrix is a step of every client, so the cost is a few
passes over the data whatever n is. A client is done when the residual rho of its top Ritz value theta is below CLOSE theta:
then theta + MIXED rho is its bound. Clients that are not done after STEPS steps fall back to the dense eigenvalue.
"""

from __future__ import annotations

from typing import cast

import numba
import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import Floats, Integers, PerClient
from errorfeedback.keyed import uniforms
from errorfeedback.problems.base import Curvature
from errorfeedback.smoothness.spectrum import ROUNDING, SEED, largest_eigenvalue, ritz
from errorfeedback.sparsity.support import Support

TOGETHER = 48
"""From this many rows and features on, clients run Lanczos together."""
STEPS, EVERY = 150, 10
CLOSE, MIXED = 1e-12, 500
"""Residuals that are small enough, and how many of them are added (see `spectrum`: two close eigenvalues may be mixed)."""
GRAM_LIMIT = 1024
"""Clients with more rows *and* more features than this get Lanczos of their own instead of a dense Gram matrix."""


def client_norms(k: Curvature, support: Support, close: float = CLOSE) -> PerClient:
    """The largest eigenvalue of every client's rows, from above; 0 where a client has no feature.

    `close`: the residual, relative to the eigenvalue, at which Lanczos stops; the bound is at most MIXED times that
    too large.
    """
    side = np.minimum(np.diff(k.rows), support.sizes)
    norms = np.zeros(support.n)
    left = side > 0
    if side.max(initial=0) > TOGETHER:
        norms, done = _lanczos_together(k, support, close)
        left &= ~(done & (side > TOGETHER))  # a client's bound must not depend on who else is in the shard
    for s in np.unique(side[left]):
        clients = np.flatnonzero(left & (side == s))
        batch = max(1, 2**24 // int(s) ** 2)
        for part in np.array_split(clients, -(-len(clients) // batch)):
            norms[part] = _dense_norms(k, support, part, int(s)) if s <= GRAM_LIMIT else _large_norms(k, support, part)
    return norms


def _lanczos_together(k: Curvature, support: Support, close: float) -> tuple[PerClient, NDArray[np.bool_]]:
    """The bounds of the clients that are done, and which those are."""
    owner = np.repeat(np.arange(support.n), support.sizes)

    def sums(u: Floats) -> PerClient:
        return cast(PerClient, np.bincount(owner, weights=u, minlength=support.n))

    v = np.empty(support.size)
    for client in range(support.n):
        uniforms(SEED, 0, support.first + client, v[support.indptr[client] : support.indptr[client + 1]])
    v -= 0.5
    v /= np.sqrt(sums(v * v))[owner]
    before, beta = np.zeros_like(v), np.zeros(support.n)
    diagonals: list[PerClient] = []
    offs: list[PerClient] = []
    norms, done = np.zeros(support.n), support.sizes == 0
    for step in range(1, STEPS + 1):
        w = k.lifted.T @ (k.weights * (k.lifted @ v))
        diagonals.append(sums(w * v))
        w -= diagonals[-1][owner] * v + beta[owner] * before
        beta = np.sqrt(sums(w * w))
        if step % EVERY == 0:
            T, off = np.array(diagonals), np.array(offs)
            for i in np.flatnonzero(~done):
                theta, rho = ritz(T[:, i], off[:, i], float(beta[i]))
                norms[i], done[i] = theta + MIXED * rho, rho <= close * theta
            if done.all():
                break
        offs.append(beta)
        before, v = v, w / np.where(beta > 0, beta, 1.0)[owner]
    return norms * (1 + ROUNDING * np.sqrt(np.maximum(support.sizes, 1))), done


def _dense_norms(k: Curvature, support: Support, clients: Integers, side: int) -> PerClient:
    grams = np.zeros((len(clients), side, side))
    work = np.zeros(support.r)
    _grams(k.A.data, k.lifted.indices, k.A.indptr, np.sqrt(k.weights), k.rows, support.indptr, clients, work, grams)
    top = np.linalg.eigvalsh(grams)[:, -1]
    return np.maximum(top, 0.0) * (1 + ROUNDING * np.sqrt(side))


def _large_norms(k: Curvature, support: Support, clients: Integers) -> PerClient:
    def norm(i: int) -> float:
        rows = slice(int(k.rows[i]), int(k.rows[i + 1]))
        block = k.lifted[rows][:, support.indptr[i] : support.indptr[i + 1]]
        return largest_eigenvalue(lambda v: block.T @ (k.weights[rows] * (block @ v)), block.shape[1]).upper

    return np.array([norm(int(i)) for i in clients])


@numba.njit(cache=True)
def _grams(
    data: Floats,
    positions: Integers,
    indptr: Integers,
    scale: Floats,
    rows: Integers,
    segments: Integers,
    clients: Integers,
    work: Floats,
    out: Floats,
) -> None:
    """Row Gram W^{1/2} A A' W^{1/2} where a client has fewer rows than features, else A' W A."""
    for q in range(len(clients)):
        i = clients[q]
        start, size = segments[i], segments[i + 1] - segments[i]
        first, last = rows[i], rows[i + 1]
        gram = out[q]
        if last - first <= size:
            for a in range(first, last):
                for e in range(indptr[a], indptr[a + 1]):
                    work[positions[e] - start] = data[e] * scale[a]
                for b in range(first, a + 1):
                    dot = 0.0
                    for e in range(indptr[b], indptr[b + 1]):
                        dot += data[e] * work[positions[e] - start]
                    gram[a - first, b - first] = dot * scale[b]
                    gram[b - first, a - first] = dot * scale[b]
                for e in range(indptr[a], indptr[a + 1]):
                    work[positions[e] - start] = 0.0
        else:
            for a in range(first, last):
                weight = scale[a] * scale[a]
                for e in range(indptr[a], indptr[a + 1]):
                    value = data[e] * weight
                    for h in range(indptr[a], indptr[a + 1]):
                        gram[positions[e] - start, positions[h] - start] += value * data[h]
