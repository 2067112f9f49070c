"""Methods: each yields x^0, x^1, ..."""

from __future__ import annotations

import numpy as np

from reference.compressors import identity
from reference.draws import draws, some_rows


def mean(vectors):
    return sum(vectors) / len(vectors)


def dgd(problem, x, gamma, rounds):
    return dcgd(problem, x, gamma, rounds, identity)


def dcgd(problem, x, gamma, rounds, C):
    yield x
    for t in range(rounds):
        x = x - gamma * mean([C(problem.gradient_i(i, x), i, t) for i in range(problem.n)])
        yield x


def sampled(problem, batch, seed):
    """(i, x, t) -> the gradient over the minibatch of that round; batch = None: over all rows."""

    def gradient(i, x, t):
        rows = None if batch is None else some_rows(len(problem.clients[i].b), batch, seed, t, i)
        return problem.gradient_i(i, x, rows)

    return gradient


def ef14(problem, x, gamma, rounds, C, batch=None, seed=0):
    gradient = sampled(problem, batch, seed)
    e = [np.zeros_like(x) for _ in range(problem.n)]
    yield x
    for t in range(rounds):
        grads = [gradient(i, x, t) for i in range(problem.n)]
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


def ef21_sgdm(problem, x, gamma, rounds, C, eta, batch, seed):
    """Fatkhullin, Tyurin, Richtarik 2023, Algorithm 1, from v_i = a gradient and g_i = C(v_i)."""
    gradient = sampled(problem, batch, seed)
    v = [gradient(i, x, 0) for i in range(problem.n)]
    g = [C(v[i], i, 0) for i in range(problem.n)]
    yield x
    for t in range(rounds):
        x = x - gamma * mean(g)
        v = [(1 - eta) * v[i] + eta * gradient(i, x, t + 1) for i in range(problem.n)]
        g = [g[i] + C(v[i] - g[i], i, t + 1) for i in range(problem.n)]
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
