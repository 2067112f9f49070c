"""CoCoA+ with local dual coordinate ascent, one row at a time: yields x^0, x^1, ..."""

from __future__ import annotations

import math

import numpy as np

from reference.draws import draws


def best_dual(loss, u, z, q, b):
    """The v with v = -loss'(z + q (v - u)), by the formula or by bisection."""
    if loss == "squared":
        return u + (2 * (b - z) - u) / (1 + 2 * q)
    lo, hi = 0.0, 1.0
    for _ in range(200):
        a = (lo + hi) / 2
        slope = 1 / (1 + math.exp(min(b * (z + q * (b * a - u)), 700.0)))
        lo, hi = (lo, a) if a > slope else (a, hi)
    return b * a


def cocoa(problem, x, gamma, rounds, l2, epochs, sigma, seed):
    n, d = problem.n, problem.d
    u = [np.zeros(len(client.b)) for client in problem.clients]
    yield x
    x = np.zeros(d)  # what u = 0 stands for
    for t in range(rounds):
        changes = np.zeros(d)
        for i, client in enumerate(problem.clients):
            m, w, v, uniform = len(client.b), x.copy(), u[i].copy(), draws(seed, t, -(2**43) + i)
            for _ in range(epochs * m):
                r = int(next(uniform) * m)
                a, weight = client.A[r], sigma / (l2 * n * m)
                after = best_dual(problem.loss, v[r], a @ w, weight * (a @ a), client.b[r])
                w, v[r] = w + weight * (after - v[r]) * a, after
            changes += (w - x) / sigma
            u[i] = u[i] + gamma * (v - u[i])
        x = x + gamma * changes
        yield x


def dual_value(problem, u, l2):
    """D(u) = -sum_r s_r loss*(-u_r) - (l2/2)||x(u)||^2; at most f + R everywhere."""
    total, x = 0.0, np.zeros(problem.d)
    for u_i, client in zip(u, problem.clients, strict=True):
        s = 1 / (problem.n * len(client.b))
        x += s / l2 * client.A.T @ u_i
        for v, b in zip(u_i, client.b, strict=True):
            a = v * b
            if problem.loss == "squared":
                total += s * (v * b - v**2 / 4)
            elif 0 < a < 1:
                total -= s * (a * math.log(a) + (1 - a) * math.log(1 - a))
    return total - l2 / 2 * x @ x
