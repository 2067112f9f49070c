"""Small problems for the tests, each as the library's object and as the reference's."""

from __future__ import annotations

import numpy as np
from reference import Client, Reference

import errorfeedback as ef

CLASSES = 3
"""Of the softmax loss."""


def random_rows(rng, n, d, m, fill):
    """Dense rows with random sparsity; every client has m rows and at least two features, every feature a client."""
    A = rng.standard_normal((n * m, d)) * (rng.random((n * m, d)) < fill)
    for i in range(n):
        for k in (i, i + 1):
            A[i * m + k % m, k % d] = 1.0 + rng.random()
    for j in range(d):
        A[j % (n * m), j] = 1.0 + rng.random()
    return A


def pair(loss="squared", n=5, d=12, m=3, fill=0.25, lam=0.0, seed=0):
    """The same problem twice: (library, reference)."""
    rng = np.random.default_rng(seed)
    A = random_rows(rng, n, d, m, fill)
    regularizer = ef.NonconvexPenalty(lam) if lam else None
    if loss == "softmax":
        b = np.concatenate([np.arange(CLASSES), rng.integers(0, CLASSES, n * m - CLASSES)])
        ours = ef.softmax(A, b, clients=n, regularizer=regularizer)
    elif loss == "squared":
        b = rng.standard_normal(n * m)
        ours = ef.least_squares(A, b, clients=n, regularizer=regularizer)
    else:
        b = np.where(rng.random(n * m) < 0.5, 1.0, -1.0)
        b[:2] = 1.0, -1.0
        ours = ef.logistic(A, b, clients=n, regularizer=regularizer)
    clients = [Client(A[i * m : (i + 1) * m], b[i * m : (i + 1) * m]) for i in range(n)]
    return ours, Reference(clients, loss, lam, CLASSES if loss == "softmax" else 1)
