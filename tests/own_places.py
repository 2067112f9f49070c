"""Rows that lie in several places, and what all of them are in one."""

from __future__ import annotations

import numpy as np

import errorfeedback as ef

N, D = 9, 14
CUTS = (0, 2, 6, 9)


def rows():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6 * N, D)) * (rng.random((6 * N, D)) < 0.3) * 2.0 ** rng.integers(-4, 5, D)
    A[np.arange(6 * N), np.arange(6 * N) % (D - 1)] = 1.0  # nobody has the last column
    return A, rng.standard_normal(6 * N), np.repeat(np.arange(N), 6)


def part(lo, hi):
    A, b, clients = rows()
    mine = (lo <= clients) & (clients < hi)
    return ef.least_squares(A[mine], b[mine], clients[mine])


def whole(scale):
    problem = ef.least_squares(*rows())
    return ef.scaled(problem) if scale else problem


def assert_same_bits(a, b):
    assert np.array_equal(a.x, b.x)
    for column in a.history.keys() - {"seconds"}:
        assert np.array_equal(a.history[column], b.history[column], equal_nan=True), column
