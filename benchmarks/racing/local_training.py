"""Peers that work locally between exchanges: a model on J_i down, its change on J_i up, no losses.

FedAvg (McMahan et al. 2017): `epochs` of SGD over the client's own rows, with steps that fall with the rounds as they must
(Li et al. 2020); the server averages the changes with the weights m_i / m, or, where features are rare, over owners alone.
CoCoA+ (Ma et al. 2015): `epochs` of dual coordinate ascent on the client's subproblem with safety sigma; changes are added.
    w = A'(alpha y) / (l2 m),   0 < alpha < 1;   sigma = n is always safe, smaller ones often work
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from racing.books import Books, Curve, recorded
from racing.hindsight import best_of
from racing.objective import CURVATURE, Objective, Vector, Whole

EPOCHS = (1, 4, 16)
STEPS = range(-4, 9, 2)
"""Powers of two, relative to 1/(the longest row's curvature)."""
HALVED = 10
"""The round with half the first one's step."""
SAFETY = (1.0, 0.25, 1 / 16)
"""Shares of n."""
CLOSEST = 1e-15
"""How near a dual variable may come to 0 and 1."""
Run = Callable[[Books], None]


def fedavg(objective: Objective, target: float, most: int) -> dict[str, Curve]:
    lengths = np.add.reduceat(objective.A.data**2, objective.A.indptr[:-1])
    unit = 1 / (CURVATURE * float(lengths.max()) + objective.l2)
    share = objective.owned.T @ (np.diff(objective.rows) / objective.m)  # of all rows, that a feature's owners have
    curves: dict[str, Curve] = {}
    for epochs in EPOCHS:
        runs = {
            f"{epochs} epochs, step 2^{k}, mean over {over}": partial(
                _fedavg, epochs=epochs, step=unit * 2.0**k, divisor=divisor
            )
            for over, divisor in (("all", np.ones(objective.d)), ("owners", share))
            for k in STEPS
        }
        curves |= best_of(_recorded(objective, target, runs), most, kept=1)
    return curves


def _recorded(o: Objective, target: float, runs: dict[str, Run]) -> dict[str, Callable[[int], Curve]]:
    return {name: partial(lambda most, run: recorded(o, target, most, run), run=run) for name, run in runs.items()}


def _fedavg(books: Books, epochs: int, step: float, divisor: Vector) -> None:
    o = books.objective
    x, order = np.zeros(o.d), _first_order(o)
    books.write(o.start)
    while True:
        change = np.zeros(o.d)
        _local_sgd(*_arrays(o), order, epochs, o.l2, step / (1 + books.exchanges / HALVED), x, change)
        x = x + change / divisor
        books.exchange(books.one, books.one if books.exchanges else 0.0)
        books.write(o.value(x))


@numba.njit(cache=True, error_model="numpy")
def _local_sgd(data, indices, indptr, y, rows, owned, starts, order, epochs, l2, step, x, change):
    """change += sum_i (m_i / m) (w_i - x), w_i after SGD from x over client i's rows in a new order
    every epoch; the L2 term shrinks w on J_i at every row: w = scale * own."""
    own = x.copy()
    m = len(y)
    for i in range(len(rows) - 1):
        lo, hi = rows[i], rows[i + 1]
        scale = 1.0
        for _ in range(epochs):
            np.random.shuffle(order[lo:hi])
            for row in order[lo:hi]:
                z = 0.0
                for p in range(indptr[row], indptr[row + 1]):
                    z += data[p] * own[indices[p]]
                slope = -y[row] / (1.0 + np.exp(y[row] * scale * z))
                scale *= 1.0 - step * l2
                for p in range(indptr[row], indptr[row + 1]):
                    own[indices[p]] -= step * slope * data[p] / scale
        for p in range(starts[i], starts[i + 1]):
            j = owned[p]
            change[j] += (hi - lo) / m * (scale * own[j] - x[j])
            own[j] = x[j]


def cocoa(objective: Objective, target: float, most: int) -> dict[str, Curve]:
    curves: dict[str, Curve] = {}
    for epochs in EPOCHS:
        runs = {
            f"{epochs} epochs, sigma {share:g} n": partial(_cocoa, epochs=epochs, sigma=max(1.0, share * objective.n))
            for share in SAFETY
        }
        curves |= best_of(_recorded(objective, target, runs), most, kept=1)
    return curves


def _cocoa(books: Books, epochs: int, sigma: float) -> None:
    o = books.objective
    w, alpha, order = np.zeros(o.d), np.zeros(o.m), _first_order(o)
    books.write(o.start)
    while True:
        change = np.zeros(o.d)
        _local_sdca(*_arrays(o), order, epochs, o.l2, sigma, alpha, w, change)
        w = w + change
        books.exchange(books.one, books.one if books.exchanges else 0.0)
        books.write(o.value(w))


@numba.njit(cache=True, error_model="numpy")
def _local_sdca(data, indices, indptr, y, rows, owned, starts, order, epochs, l2, sigma, alpha, w, change):
    """change = A'(alpha+ - alpha) y / (l2 m), alpha+ after coordinate ascent on every client's subproblem."""
    own = w.copy()
    m = len(y)
    for i in range(len(rows) - 1):
        for _ in range(epochs):
            np.random.shuffle(order[rows[i] : rows[i + 1]])
            for row in order[rows[i] : rows[i + 1]]:
                z, length = 0.0, 0.0
                for p in range(indptr[row], indptr[row + 1]):
                    z += data[p] * own[indices[p]]
                    length += data[p] * data[p]
                a = _best_alpha(alpha[row], y[row] * z, sigma * length / (l2 * m))
                shift = (a - alpha[row]) * y[row] / (l2 * m)
                alpha[row] = a
                for p in range(indptr[row], indptr[row + 1]):
                    own[indices[p]] += sigma * shift * data[p]  # what the subproblem sees
        for p in range(starts[i], starts[i + 1]):
            j = owned[p]
            change[j] += (own[j] - w[j]) / sigma
            own[j] = w[j]


@numba.njit(cache=True, error_model="numpy")
def _best_alpha(alpha, z, q):
    """The a in (0, 1) with log(a / (1 - a)) + z + q (a - alpha) = 0: bisection, then Newton."""
    lo, hi = CLOSEST, 1.0 - CLOSEST
    a = alpha if lo < alpha < hi else 0.5
    for _ in range(60):
        h = np.log(a / (1.0 - a)) + z + q * (a - alpha)
        if abs(h) < 1e-9 or hi - lo < CLOSEST:
            break
        if h > 0.0:
            hi = a
        else:
            lo = a
        a -= h / (1.0 / (a * (1.0 - a)) + q)
        if not lo < a < hi:
            a = 0.5 * (lo + hi)
    return a


def _arrays(o: Objective) -> tuple[NDArray[Any], ...]:
    return o.A.data, o.A.indices, o.A.indptr, o.y, o.rows, o.owned.indices, o.owned.indptr


def _first_order(o: Objective) -> Whole:
    """The rows as they are; every epoch shuffles a client's among themselves, from the same seed in every run."""
    _seed(0)
    return np.arange(o.m)


@numba.njit
def _seed(seed):
    np.random.seed(seed)
