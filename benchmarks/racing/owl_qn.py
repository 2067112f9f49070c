"""OWL-QN (Andrew and Gao 2007, Algorithm 1) on the server, in full precision: x on J_i down, gradient and loss up, one
exchange per evaluation.

    v = -(the shortest subgradient),   p = H v where its sign is that of v, 0 elsewhere,
    x(a) = x + a p, 0 where that has another sign than x (than v, where x is 0),

a = 1, 1/2, 1/4, ... (1/||v|| first, in the first step) until F(x(a)) <= F(x) - 1e-4 <v, x(a) - x>; H by the two loops of
Nocedal (1980) over the last ten pairs of steps and changes of the smooth part's gradient. In the variable z = x / S with
S_jj = curvature_j^(-p/2) for p = 0, 1/2 and 1; the best of the three counts, and nobody is charged for agreeing on S.
"""

from __future__ import annotations

import numpy as np

from racing.books import LOSS, Books, Curve, recorded
from racing.lbfgs import MEMORY, METRICS
from racing.objective import Vector
from racing.sparse_objective import SparseObjective

SHARE, SHORTEST = 1e-4, 2.0**-40


def owl_qn(objective: SparseObjective, target: float, most: int) -> dict[str, Curve]:
    def with_metric(power: float) -> Curve:
        scale = objective.diagonal ** (-power / 2)
        return recorded(objective, target, most, lambda books: _walk(books, objective, scale))

    return {name: with_metric(power) for name, power in METRICS.items()}


def _walk(books: Books, objective: SparseObjective, scale: Vector) -> None:
    l1, z, pairs = objective.l1 * scale, np.zeros(objective.d), list[tuple[Vector, Vector]]()

    def evaluated(z: Vector) -> tuple[float, Vector]:
        f, g = objective.value_and_gradient(scale * z)
        books.exchange(books.one + LOSS, books.one if books.exchanges else 0.0)
        f += float(l1 @ np.abs(z))
        books.write(f)
        return f, scale * g

    f, g = evaluated(z)
    while True:
        v = -objective.shortest_subgradient(z, g, l1)
        p = two_loops(pairs, v)
        p[p * v <= 0] = 0.0
        side = np.where(z == 0, np.sign(v), np.sign(z))
        a = 1.0 if pairs else 1.0 / float(np.linalg.norm(v))
        while True:
            there = z + a * p
            there[there * side <= 0] = 0.0
            f_there, g_there = evaluated(there)
            if f_there <= f - SHARE * v @ (there - z):
                break
            a /= 2
            if a < SHORTEST:
                return
        s, y = there - z, g_there - g
        if s @ y > 0:
            pairs = [*pairs, (s, y)][-MEMORY:]
        z, f, g = there, f_there, g_there


def two_loops(pairs: list[tuple[Vector, Vector]], v: Vector) -> Vector:
    """H v."""
    q, shares = v.copy(), []
    for s, y in reversed(pairs):
        shares.append(s @ q / (s @ y))
        q -= shares[-1] * y
    if pairs:
        s, y = pairs[-1]
        q *= s @ y / (y @ y)
    for (s, y), share in zip(pairs, reversed(shares), strict=True):
        q += (share - y @ q / (s @ y)) * s
    return q
