"""The lowest point of a quadratic model beside l1 weights: the signs by many accelerated proximal gradient steps, the rest
by a linear system, and the conditions of optimality as a check.
"""

from __future__ import annotations

import numpy as np


def shrunk(v, by):
    return np.sign(v) * np.maximum(np.abs(v) - by, 0.0)


def shortest_subgradient(x, g, l1):
    """Of <g, .> + l1 ||.||_1 at x."""
    return np.where(x == 0, shrunk(g, l1), g + l1 * np.sign(x))


def lowest(x, g, B, l1):
    """argmin_y <g, y - x> + (y - x)'B(y - x)/2 + l1 ||y||_1."""
    steepest, y, v, t, l1 = np.linalg.eigvalsh(B)[-1], x, x, 1.0, np.broadcast_to(l1, x.shape)
    for _ in range(60):
        for _ in range(300):  # Beck and Teboulle 2009, from the start again where it overshoots
            last, y = y, shrunk(v - (g + B @ (v - x)) / steepest, l1 / steepest)
            t, before = (1 + np.sqrt(1 + 4 * t * t)) / 2, t
            if (v - y) @ (y - last) > 0:
                t, before = 1.0, 1.0
            v = y + (before - 1) / t * (y - last)
        on, z = y != 0, np.zeros_like(x)
        right = g[on] + l1[on] * np.sign(y[on]) - B[np.ix_(on, ~on)] @ x[~on]
        z[on] = x[on] - np.linalg.solve(B[np.ix_(on, on)], right)
        slopes = g + B @ (z - x)
        if (np.sign(z[on]) == np.sign(y[on])).all() and (np.abs(slopes[~on]) <= l1[~on] * (1 + 1e-9)).all():
            return z
    return y  # a feature is between two signs
