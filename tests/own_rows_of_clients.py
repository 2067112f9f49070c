"""Rows of clients that have features of their own, and what is said of them, by the book."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

import errorfeedback as ef

M, SHARED, D = 14, 6, 18
OWN = {0: [6, 7, 8], 1: [9], 3: [10, 11, 12, 13, 14], 4: [15, 16, 17]}
"""Client 2 has none."""
N = 5
L2 = np.linspace(0.01, 0.05, D)


def table(seed=0, own=OWN):
    """A, labels, numbers, the client and the weight of every row."""
    rng = np.random.default_rng(seed)
    A, clients = rng.standard_normal((N * M, D)), np.repeat(np.arange(N), M)
    for i in range(N):
        away = [j for k, theirs in own.items() if k != i for j in theirs]
        some = [1 + i % (SHARED - 1), 1 + (i + 2) % (SHARED - 1)]
        A[np.ix_(clients == i, [*away, *some])] = 0.0
    z = A @ rng.standard_normal(D) + rng.standard_normal(len(A))
    return A, np.where(z > 0, 1, -1), z, clients, rng.uniform(0.5, 2.0, len(A))


def linear(loss, weighted=False, seed=0):
    """The rows with all features."""
    A, labels, z, clients, weights = table(seed)
    made = {
        "logistic": (ef.logistic, labels),
        "squared": (ef.least_squares, z),
        "huber": (ef.huber, z),
        "squared hinge": (ef.squared_hinge, labels),
    }
    make, target = made[loss]
    return make(A, target, clients, sample_weight=weights if weighted else None)


def literal(rows, i, x):
    """f~_i(x) and w_i(x), by a general solver; x: the shared features."""
    own = OWN.get(i, [])

    def value(w):
        full = np.zeros(D)
        full[:SHARED], full[own] = x, w
        return rows.values_at(full)[i] + N / 2 * L2[own] @ w**2

    if not own:
        return value(np.empty(0)), np.empty(0)
    found = minimize(value, np.zeros(len(own)), method="BFGS", options={"gtol": 1e-11})
    return found.fun, found.x
