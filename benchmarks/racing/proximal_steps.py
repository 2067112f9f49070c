"""Proximal gradient steps, and FISTA with restarts (Beck and Teboulle 2009; O'Donoghue and Candes 2015): the best constant
step of a grid 2^k / L in hindsight, in the data's units and scaled. Nobody needs the loss, and the last point need not be
sent back: f(x_k) is reached after k exchanges.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from racing.books import Books, Curve, recorded
from racing.first_order import POWERS, SCALED, smoothness
from racing.hindsight import best_of
from racing.objective import Vector
from racing.sparse_objective import SparseObjective, shrunk

Walk = Callable[[Books, SparseObjective, Vector, float], None]


def proximal_gradient(objective: SparseObjective, target: float, most: int) -> dict[str, Curve]:
    return _grid(objective, target, most, _plain)


def fista(objective: SparseObjective, target: float, most: int) -> dict[str, Curve]:
    return _grid(objective, target, most, _accelerated)


def _grid(objective: SparseObjective, target: float, most: int, walk: Walk) -> dict[str, Curve]:
    runs: dict[str, Callable[[int], Curve]] = {}
    for name, power in SCALED.items():
        scale = objective.diagonal ** (-power / 2)
        L = smoothness(objective, scale)
        for k in POWERS:
            run = partial(walk, objective=objective, scale=scale, step=2.0**k / L)
            runs[f"{name}, 2^{k}/L"] = partial(lambda most, run: recorded(objective, target, most, run), run=run)
    return best_of(runs, most)


def _plain(books: Books, objective: SparseObjective, scale: Vector, step: float) -> None:
    z = np.zeros(objective.d)
    books.write(objective.start)
    while True:
        g = scale * objective.value_and_gradient(scale * z)[1]
        books.exchange(books.one, books.one if books.exchanges else 0.0)
        z = shrunk(z - step * g, step * objective.l1 * scale)
        books.write(objective.value(scale * z))


def _accelerated(books: Books, objective: SparseObjective, scale: Vector, step: float) -> None:
    z = ahead = np.zeros(objective.d)
    books.write(objective.start)
    t = 1.0
    while True:
        g = scale * objective.value_and_gradient(scale * ahead)[1]
        books.exchange(books.one, books.one if books.exchanges else 0.0)
        old, z = z, shrunk(ahead - step * g, step * objective.l1 * scale)
        if (ahead - z) @ (z - old) > 0:
            t = 1.0
        after = (1 + np.sqrt(1 + 4 * t * t)) / 2
        ahead, t = z + (t - 1) / after * (z - old), after
        books.write(objective.value(scale * z))
