"""Second-order methods, on all of R^d: each yields x^0, x^1, ..."""

from __future__ import annotations

import math

import numpy as np

from reference.compressors import nearest_float
from reference.methods import mean
from reference.searching import hessian_i


def conjugate_gradients(product, b, steps):
    """x after so many steps for A x = b, and all the directions."""
    x, r = np.zeros_like(b), b
    p, shown = r, []
    for _ in range(steps):
        shown.append(p)
        Ap = product(p)
        if not p @ Ap > 0 or r @ r <= 1e-28 * (b @ b):
            p = np.zeros_like(p)
            continue
        a = (r @ r) / (p @ Ap)
        x, left = x + a * p, r - a * Ap
        p, r = left + (left @ left) / (r @ r) * p, left
    return x, shown


def newton_cg(problem, x, gamma, rounds, inner, ridge):
    """Also yields the points where directions are shown."""
    yield x
    while rounds > 0:
        H = mean([hessian_i(problem, i, x) for i in range(problem.n)]) + ridge * np.eye(problem.d)
        s, shown = conjugate_gradients(lambda p, H=H: H @ p, -problem.gradient(x), inner)
        yield from (x + gamma * p for p in shown)
        x = x + s
        yield x
        rounds -= inner + 1


def giant(problem, x, gamma, rounds, inner, ridge, step):
    owners = np.array([sum(j in client.J for client in problem.clients) for j in range(problem.d)])
    root = np.sqrt(problem.n / owners)
    yield x
    while rounds > 0:
        g, total = problem.gradient(x), np.zeros(problem.d)
        for i, client in enumerate(problem.clients):
            J = client.J
            H = hessian_i(problem, i, x)[np.ix_(J, J)] + ridge * np.eye(len(J))
            total[J] += root[J] * conjugate_gradients(lambda p, H=H: H @ p, (root * g)[J], inner)[0]
        yield x - gamma * g
        x = x - step * total / owners
        yield x
        rounds -= 2


def largest_entries(k):
    """Of a triangle, ties to the first."""

    def compress(matrix, where):
        out = np.zeros_like(matrix)
        for at in sorted(where, key=lambda at: (-abs(matrix[at]), at))[:k]:
            out[at] = out[at[::-1]] = matrix[at]
        return out

    return compress


def largest_eigenvalues(k):
    def compress(matrix, where):
        values, V = np.linalg.eigh(matrix)
        largest = sorted(range(len(values)), key=lambda r: -abs(values[r]))[:k]
        return sum(values[r] * np.outer(V[:, r], V[:, r]) for r in largest)

    return compress


def fed_nl(problem, x, rounds, C):
    """l from what 16 bits tell of the mean square of what is missing from a triangle."""
    d = problem.d
    H = [np.zeros((d, d)) for _ in range(problem.n)]
    yield x
    for _ in range(rounds):
        norms = 0.0
        for i, client in enumerate(problem.clients):
            truth = hessian_i(problem, i, x)
            where = [(j, m) for j in client.J for m in client.J if j <= m]
            H[i] = H[i] + C(truth - H[i], where)
            missing = nearest_float(math.sqrt(np.mean([(truth[at] - H[i][at]) ** 2 for at in where])), 16)
            norms += math.sqrt(2 * len(where)) * missing
        values, V = np.linalg.eigh(mean(H) + norms / problem.n * np.eye(d))
        values = np.maximum(values, max(norms / problem.n, 1e-12 * max(values)))
        x = x - V @ ((V.T @ problem.gradient(x)) / values)
        yield x
