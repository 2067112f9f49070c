"""Methods with unbiased compressors: each yields x^0, x^1, ..."""

from __future__ import annotations

import numpy as np

from reference.draws import draws
from reference.methods import mean, sampled


def diana(problem, x, gamma, rounds, C, rate, batch, seed):
    gradient = sampled(problem, batch, seed)
    h = [np.zeros_like(x) for _ in range(problem.n)]
    yield x
    for t in range(rounds):
        m = [C(gradient(i, x, t) - h[i], i, t) for i in range(problem.n)]
        x = x - gamma * (mean(h) + mean(m))
        h = [h[i] + rate * m[i] for i in range(problem.n)]
        yield x


def dasha(problem, x, gamma, rounds, C, a):
    g = [problem.gradient_i(i, x) for i in range(problem.n)]
    yield x
    for t in range(rounds):
        old = x
        x = x - gamma * mean(g)
        for i in range(problem.n):
            last = problem.gradient_i(i, old)
            g[i] = g[i] + C(problem.gradient_i(i, x) - last - a * (g[i] - last), i, t + 1)
        yield x


def dasha_pp(problem, x, gamma, rounds, C, p, a, seed):
    """Whoever answers is drawn as in `participating`; C is the compressor of those that do."""
    b = p / (2 - p)
    g = [problem.gradient_i(i, x) for i in range(problem.n)]
    h = [each.copy() for each in g]
    yield x
    for t in range(rounds):
        old = x
        x = x - gamma * mean(g)
        for i in range(problem.n):
            if next(draws(seed, t + 1, -(2**40) - i)) < p:
                last = problem.gradient_i(i, old)
                k = problem.gradient_i(i, x) - last - b * (h[i] - last)
                g[i], h[i] = g[i] + C(k / p - a / p * (g[i] - h[i]), i, t + 1), h[i] + k / p
        yield x


def vr_marina(problem, x, gamma, rounds, C, p, batch, seed):
    gradient = sampled(problem, batch, seed)
    g = problem.gradient(x)
    yield x
    for t in range(rounds):
        old = x
        x = x - gamma * g
        if next(draws(seed, t + 1, -1)) < p:
            g = problem.gradient(x)
        else:
            g = g + mean([C(gradient(i, x, t + 1) - gradient(i, old, t + 1), i, t + 1) for i in range(problem.n)])
        yield x


def some_clients(compress, p, seed):
    """Client i answers with probability p_i, and counts 1/p_i times."""

    def sometimes(u, i, t):
        p_i = p if isinstance(p, float) else p[i]
        return compress(u / p_i, i, t) if next(draws(seed, t, -(2**40) - i)) < p_i else np.zeros_like(u)

    return sometimes
