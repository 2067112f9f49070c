"""Three point compressors (Richtarik et al. 2022), one client at a time: C(h, y, z, i, t), and the method that all share."""

from __future__ import annotations

from reference.draws import draws
from reference.methods import mean


def three_point(problem, x, gamma, rounds, C):
    """DCGD with 3PC, from g_i = grad f_i(x)."""
    y = [problem.gradient_i(i, x) for i in range(problem.n)]
    g = list(y)
    yield x
    for t in range(rounds):
        x = x - gamma * mean(g)
        z = [problem.gradient_i(i, x) for i in range(problem.n)]
        g = [C(g[i], y[i], z[i], i, t + 1) for i in range(problem.n)]
        y = z
        yield x


def norm2(u):
    return u @ u


def markov(C):
    return lambda h, y, z, i, t: h + C(z - h, i, t)


def lag(zeta):
    return lambda h, y, z, i, t: z if norm2(z - h) > zeta * norm2(z - y) else h


def clag(C, zeta):
    return lambda h, y, z, i, t: h + C(z - h, i, t) if norm2(z - h) > zeta * norm2(z - y) else h


def plus(C):
    """EF21+ (Richtarik, Sokolov, Fatkhullin 2021)."""

    def nearer(h, y, z, i, t):
        fresh, tracked = C(z, i, t), h + C(z - h, i, t)
        return fresh if norm2(fresh - z) < norm2(tracked - z) else tracked

    return nearer


def v1(C):
    return lambda h, y, z, i, t: y + C(z - y, i, t)


LATER = 2**40
"""Draws of the second compressor of a round are those of a far later round."""


def v2(C, Q):
    def compress(h, y, z, i, t):
        b = h + Q(z - y, i, t)
        return b + C(z - b, i, t + LATER)

    return compress


def v3(C, inner):
    def compress(h, y, z, i, t):
        b = inner(h, y, z, i, t)
        return b + C(z - b, i, t + LATER)

    return compress


def v4(C, first):
    def compress(h, y, z, i, t):
        b = h + first(z - h, i, t)
        return b + C(z - b, i, t + LATER)

    return compress


def v5(C, p, seed):
    return lambda h, y, z, i, t: z if next(draws(seed, t, -1)) < p else h + C(z - y, i, t)
