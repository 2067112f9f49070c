"""Methods: each yields x^0, x^1, ..."""

from __future__ import annotations

import numpy as np

from reference.compressors import identity
from reference.draws import draws


def mean(vectors):
    return sum(vectors) / len(vectors)


def dgd(problem, x, gamma, rounds):
    return dcgd(problem, x, gamma, rounds, identity)


def dcgd(problem, x, gamma, rounds, C):
    yield x
    for t in range(rounds):
        x = x - gamma * mean([C(problem.gradient_i(i, x), i, t) for i in range(problem.n)])
        yield x


def ef14(problem, x, gamma, rounds, C):
    e = [np.zeros_like(x) for _ in range(problem.n)]
    yield x
    for t in range(rounds):
        grads = [problem.gradient_i(i, x) for i in range(problem.n)]
        v = [C(e[i] + gamma * grads[i], i, t) for i in range(problem.n)]
        e = [e[i] + gamma * grads[i] - v[i] for i in range(problem.n)]
        x = x - mean(v)
        yield x


def ef21(problem, x, gamma, rounds, C, start):
    """Algorithm 1."""
    first = {"gradient": identity, "compressed": C}.get(start, lambda u, i, t: np.zeros_like(u))
    g = [first(problem.gradient_i(i, x), i, 0) for i in range(problem.n)]
    direction = problem.gradient(x) if start == "authors" else mean(g)
    yield x
    for t in range(rounds):
        x = x - gamma * direction
        g = [g[i] + C(problem.gradient_i(i, x) - g[i], i, t + 1) for i in range(problem.n)]
        direction = mean(g)
        yield x


def ef21_bc(problem, x, gamma, rounds, C, m):
    """EF21 with a server that sends the m largest entries of what is missing from w (Fatkhullin et al. 2021)."""
    g, w = [np.zeros_like(x) for _ in range(problem.n)], np.zeros_like(x)
    yield x
    for t in range(rounds):
        missing = mean(g) - w
        largest = sorted(range(len(x)), key=lambda j: (-abs(missing[j]), j))[:m]
        w = w + np.array([missing[j] if j in largest else 0.0 for j in range(len(x))])
        x = x - gamma * w
        g = [g[i] + C(problem.gradient_i(i, x) - g[i], i, t + 1) for i in range(problem.n)]
        yield x


def marina(problem, x, gamma, rounds, C, p, seed):
    g = problem.gradient(x)
    yield x
    for t in range(rounds):
        old = x
        x = x - gamma * g
        if next(draws(seed, t + 1, -1)) < p:
            g = problem.gradient(x)
        else:
            g = g + mean([C(problem.gradient_i(i, x) - problem.gradient_i(i, old), i, t + 1) for i in range(problem.n)])
        yield x
