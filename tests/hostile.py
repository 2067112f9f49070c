"""Random problems made to hurt a step-size rule: heterogeneous, badly scaled, separable, duplicated, nearly empty, huge."""

from __future__ import annotations

import numpy as np

import errorfeedback as ef
from errorfeedback.problems.scaling import scaled

SHAKEN = 1e-3


def hostile(seed, below=(12, 30, 6), draw=0):
    """A problem, a method, a start and a first guess of the step; `below`: clients, features and rows of a client are.
    `draw`: other than 0, all numbers of the data are moved by about a thousandth of themselves."""
    rng = np.random.default_rng(seed)
    n, d, m = (int(rng.integers(1, hi)) for hi in below)
    rows = n * m
    A = rng.standard_normal((rows, d)) * (rng.random((rows, d)) < rng.uniform(0.1, 1.0))
    A[np.arange(rows), rng.integers(0, d, rows)] = 1.0  # no client without a feature
    A *= 10.0 ** rng.uniform(-3, 3, d) ** rng.integers(0, 2)  # features of all scales, in half of the cases
    A *= np.repeat(10.0 ** (rng.uniform(-4, 4, n) * rng.integers(0, 2)), m)[:, None]  # clients too
    if draw:
        A *= 1.0 + SHAKEN * np.random.default_rng((seed, draw)).standard_normal(A.shape)
    if rng.random() < 0.2:
        A[m:] = np.tile(A[:m], (n - 1, 1))  # duplicated clients
    x = rng.standard_normal(d) * 10.0 ** rng.integers(-2, 3)
    z = A @ x
    if rng.random() < 0.5:
        b = z + rng.standard_normal(rows) * 10.0 ** rng.integers(-2, 4)
        b *= 1e12 if rng.random() < 0.1 else 1.0  # huge values
        problem = ef.least_squares(A, b, clients=n, intercept=rng.random() < 0.3)
    else:
        y = np.where(z > np.median(z), 1, -1) if rng.random() < 0.5 else rng.choice([-1, 1], rows)  # separable, or noise
        if len(set(y.tolist())) == 1:
            y[0] = -y[0]
        if rows == 1:
            return hostile(seed + 10_000, below, draw)
        problem = ef.logistic(A, y, clients=n, intercept=rng.random() < 0.3)
    problem = scaled(problem) if rng.random() < 0.5 else problem
    k = int(rng.choice([1, 2, 5, 1000]))
    x0 = np.zeros(problem.width) if rng.random() < 0.7 else rng.standard_normal(problem.width)
    guess = None if rng.random() < 0.6 else 10.0 ** rng.uniform(-2, 2) / ef.analyse(problem).L
    return problem, ef.EF21(ef.TopK(k)), x0, guess
