"""||A_i' diag(w) A_i|| of every client, from above.

Clients with few rows or few features get a dense eigenvalue of the smaller of their two Gram matrices. Larger ones run
Lanczos, one after the other, so that a client's rows stay in cache over all its steps. It starts from uniform numbers drawn
from a hash of the client's rows, and stops and adds as in `spectrum`. (Uniform numbers in place of normal ones: the density
of <q, u> for u in the cube of side 1 is at most sqrt(2), Ball 1986, and ||u|| <= sqrt(d)/2, so that
P(|<q, u>| <= tau ||u||) <= sqrt(2 d) tau.) Clients that are not done after STEPS steps fall back to the dense eigenvalue.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import Floats, Integers, Lifted, PerClient
from errorfeedback.keyed import uniforms
from errorfeedback.problems.base import CurvatureBound
from errorfeedback.smoothness.spectrum import EPS, ROUNDING, SEED, UNLIKELY, key_of, largest_eigenvalue
from errorfeedback.sparsity.support import Support

LARGE = 48
"""Clients with more rows and features than this run Lanczos."""
STEPS, EVERY = 150, 10
CLOSE, MIXED = 1e-12, 500
"""Residuals that are small enough, relative to the eigenvalue, and how many of that size are added (see `spectrum`)."""
BISECTIONS, TINY = 100, 1e-300
GRAM_LIMIT = 1024
"""Clients with more rows *and* more features than this get Lanczos of their own instead of a dense Gram matrix."""


def client_norms(k: CurvatureBound, support: Support, close: float = CLOSE) -> PerClient:
    """The largest eigenvalue of every client's rows, from above; 0 where a client has no feature.

    `close`: the residual, relative to the eigenvalue, at which Lanczos stops; the bound is at most MIXED times that
    too large.
    """
    side = np.minimum(np.diff(k.rows), support.sizes)
    norms = np.zeros(support.n)
    left = side > 0
    if side.max(initial=0) > LARGE:
        small = side <= LARGE  # a client's bound must not depend on who else is in the shard
        norms, done = _lanczos_norms(k, support, close, small)
        left &= small | ~done
    for s in np.unique(side[left]):
        clients = np.flatnonzero(left & (side == s))
        batch = max(1, 2**24 // int(s) ** 2)
        for part in np.array_split(clients, -(-len(clients) // batch)):
            norms[part] = _dense_norms(k, support, part, int(s)) if s <= GRAM_LIMIT else _large_norms(k, support, part)
    return PerClient(norms)


def _lanczos_norms(
    k: CurvatureBound, support: Support, close: float, spared: NDArray[np.bool_] | None = None
) -> tuple[PerClient, NDArray[np.bool_]]:
    """The bounds of the clients that are done, and which those are; nothing is done for those that are spared."""
    start = np.zeros(support.size)
    norms, done = PerClient(np.zeros(support.n)), support.sizes == 0 if spared is None else (support.sizes == 0) | spared
    for i in np.flatnonzero(~done):
        uniforms(SEED, 0, _key(k, support, int(i)), start[support.indptr[i] : support.indptr[i + 1]])
    start -= 0.5
    segments = support.indptr
    _lanczos(k.lifted.data, k.lifted.indices, k.lifted.indptr, k.weights, k.rows, segments, start, close, norms, done)
    return PerClient(norms * (1 + ROUNDING * np.sqrt(np.maximum(support.sizes, 1)))), done


def _key(k: CurvatureBound, support: Support, i: int) -> int:
    """A hash of the client's rows, the same in every shard."""
    first, last = int(k.rows[i]), int(k.rows[i + 1])
    entries = slice(int(k.lifted.indptr[first]), int(k.lifted.indptr[last]))
    positions = k.lifted.indices[entries] - support.indptr[i]
    return key_of(k.lifted.data[entries], positions, np.diff(k.lifted.indptr[first : last + 1]), k.weights[first:last])


def _dense_norms(k: CurvatureBound, support: Support, clients: Integers, side: int) -> PerClient:
    grams = np.zeros((len(clients), side, side))
    work = np.zeros(support.r)
    _grams(k.A.data, k.lifted.indices, k.A.indptr, np.sqrt(k.weights), k.rows, support.indptr, clients, work, grams)
    top = np.linalg.eigvalsh(grams)[:, -1]
    return np.maximum(top, 0.0) * (1 + ROUNDING * np.sqrt(side))


def _large_norms(k: CurvatureBound, support: Support, clients: Integers) -> PerClient:
    def norm(i: int) -> float:
        rows = slice(int(k.rows[i]), int(k.rows[i + 1]))
        block = k.lifted[rows][:, support.indptr[i] : support.indptr[i + 1]]
        key = _key(k, support, i)
        return largest_eigenvalue(lambda v: block.T @ (k.weights[rows] * (block @ v)), block.shape[1], key).upper

    return PerClient(np.array([norm(int(i)) for i in clients]))


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


@numba.njit(cache=True)
def _lanczos(
    data: Floats,
    positions: Integers,
    indptr: Integers,
    weights: Floats,
    rows: Integers,
    segments: Integers,
    start: Floats,
    close: float,
    norms: PerClient,
    done: NDArray[np.bool_],
) -> None:
    """norms = (theta + rho)(1 + MIXED close) of every client, and whether it is done."""
    diagonal, off = np.empty(STEPS), np.empty(STEPS)
    for i in range(len(rows) - 1):
        lo, hi = segments[i], segments[i + 1]
        if done[i]:
            continue
        v, before, w = start[lo:hi] / np.sqrt((start[lo:hi] ** 2).sum()), np.zeros(hi - lo), np.empty(hi - lo)
        beta = 0.0
        for step in range(1, STEPS + 1):
            _product(data, positions, indptr, weights, rows[i], rows[i + 1], lo, v, w)
            top = (w * v).sum()
            diagonal[step - 1] = top
            for p in range(hi - lo):
                w[p] -= top * v[p] + beta * before[p]
            beta = np.sqrt((w * w).sum())
            exhausted = beta <= ROUNDING * diagonal[:step].max()  # the start lies in a space that has been searched
            if step % EVERY == 0 or exhausted:
                theta, last, sigma = _top_ritz(diagonal[:step], off)
                rho, added = beta * last, MIXED * close * theta
                unlikely = np.sqrt(2.0 * (hi - lo)) * sigma * max(rho, EPS * theta) <= UNLIKELY * added
                norms[i], done[i] = theta + rho + added, exhausted or (rho <= close * theta and unlikely)
                if done[i]:
                    break
            off[step - 1] = beta
            v, before, w = w / beta, v, before


@numba.njit(cache=True)
def _product(
    data: Floats,
    positions: Integers,
    indptr: Integers,
    weights: Floats,
    first: int,
    last: int,
    start: int,
    v: Floats,
    out: Floats,
) -> None:
    """out = A_i' diag(w) A_i v for the client with the rows first, ..., last - 1 and the segment from `start`."""
    out[:] = 0.0
    for r in range(first, last):
        z = 0.0
        for e in range(indptr[r], indptr[r + 1]):
            z += data[e] * v[positions[e] - start]
        z *= weights[r]
        for e in range(indptr[r], indptr[r + 1]):
            out[positions[e] - start] += z * data[e]


def power_steps(k: CurvatureBound, support: Support, kept: Lifted, v: Lifted, steps: int) -> PerClient:
    """||P H_i P|| of every client, approximately: that many power steps on v (in place), with P = diag(kept)."""
    lengths = PerClient(np.zeros(support.n))
    lifted, segments = k.lifted, support.indptr
    _power_steps(lifted.data, lifted.indices, lifted.indptr, k.weights, k.rows, segments, kept, steps, v, lengths)
    return lengths


@numba.njit(cache=True)
def _power_steps(
    data: Floats,
    positions: Integers,
    indptr: Integers,
    weights: Floats,
    rows: Integers,
    segments: Integers,
    kept: Lifted,
    steps: int,
    v: Lifted,
    lengths: PerClient,
) -> None:
    w = np.empty(np.diff(segments).max())
    for i in range(len(rows) - 1):
        lo, hi = segments[i], segments[i + 1]
        for p in range(lo, hi):
            v[p] *= kept[p]
        for _ in range(steps):
            _product(data, positions, indptr, weights, rows[i], rows[i + 1], lo, v[lo:hi], w[: hi - lo])
            norm2 = 0.0
            for p in range(lo, hi):
                w[p - lo] *= kept[p]
                norm2 += w[p - lo] ** 2
            lengths[i] = np.sqrt(norm2)
            for p in range(lo, hi):
                v[p] = w[p - lo] / lengths[i] if norm2 > 0.0 else 0.0


@numba.njit(cache=True)
def _top_ritz(diagonal: Floats, off: Floats) -> tuple[float, float, float]:
    """The largest eigenvalue of a tridiagonal matrix by bisection; the last and the first entry of its unit eigenvector."""
    k = len(diagonal)
    low, high = diagonal.max(), 0.0
    for j in range(k):
        reach = diagonal[j] + (off[j - 1] if j > 0 else 0.0) + (off[j] if j < k - 1 else 0.0)
        high = max(high, reach)  # Gershgorin
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        pivot, above = diagonal[0] - middle, False  # some eigenvalue is above where a pivot of T - middle is positive
        for j in range(1, k + 1):
            if pivot > 0.0:
                above = True
                break
            if j < k:
                pivot = diagonal[j] - middle - off[j - 1] ** 2 / min(pivot, -TINY)
        if above:
            low = middle
        else:
            high = middle
    down, up = high - diagonal, high - diagonal  # pivots of high - T from either end: non-negative, nothing cancels
    for j in range(1, k):
        down[j] -= off[j - 1] ** 2 / max(down[j - 1], TINY)
        up[k - 1 - j] -= off[k - 1 - j] ** 2 / max(up[k - j], TINY)
    peak = np.abs(down + up - (high - diagonal)).argmin()
    norm2, first, last = 1.0, 1.0, 1.0
    for j in range(peak - 1, -1, -1):
        first *= off[j] / max(down[j], TINY)
        norm2 += first * first
    for j in range(peak + 1, k):
        last *= off[j - 1] / max(up[j], TINY)
        norm2 += last * last
    return high, last / np.sqrt(norm2), first / np.sqrt(norm2)
