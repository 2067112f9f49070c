"""GD and AGD with the best constant step of a grid 2^k / L in hindsight, in the data's units and scaled.

AGD is Nesterov's with the restart of O'Donoghue and Candes (<gradient, step> > 0), which needs no further message. With a
constant step nobody needs the loss, and the last point need not be sent back: f(x_k) is reached after k exchanges.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from racing.books import Books, Curve, recorded
from racing.hindsight import best_of
from racing.objective import Objective, Vector

POWERS = range(0, 9)
SCALED = {"no metric": 0.0, "full metric": 1.0}


def gd(objective: Objective, target: float, most: int) -> dict[str, Curve]:
    return _grid(objective, target, most, _gd)


def agd(objective: Objective, target: float, most: int) -> dict[str, Curve]:
    return _grid(objective, target, most, _agd)


Walk = Callable[[Books, Vector, float], None]


def _grid(objective: Objective, target: float, most: int, walk: Walk) -> dict[str, Curve]:
    runs: dict[str, Callable[[int], Curve]] = {}
    for name, power in SCALED.items():
        scale = objective.diagonal ** (-power / 2)
        L = smoothness(objective, scale)
        for k in POWERS:
            run = partial(walk, scale=scale, step=2.0**k / L)
            runs[f"{name}, 2^{k}/L"] = partial(lambda most, run: recorded(objective, target, most, run), run=run)
    return best_of(runs, most)


def smoothness(objective: Objective, scale: Vector) -> float:
    """The largest eigenvalue of the bound S (A'A / (4 m) + l2) S."""

    def product(v: Vector) -> Vector:
        u = scale * v.ravel()
        return scale * (objective.transposed @ (objective.A @ u) / (4 * objective.m) + objective.l2 * u)

    operator = LinearOperator((objective.d, objective.d), matvec=product, dtype=np.float64)
    return float(eigsh(operator, k=1, tol=1e-3, v0=np.ones(objective.d), return_eigenvectors=False)[0])


def _gd(books: Books, scale: Vector, step: float) -> None:
    x = np.zeros(books.objective.d)
    f, g = books.objective.value_and_gradient(x)
    books.write(f)
    while True:
        x = x - step * scale**2 * g
        books.exchange(books.one, books.one if books.exchanges else 0.0)
        f, g = books.objective.value_and_gradient(x)
        books.write(f)


def _agd(books: Books, scale: Vector, step: float) -> None:
    z = old = ahead = np.zeros(books.objective.d)
    books.write(books.objective.start)
    t = 1.0
    while True:
        g = scale * books.objective.value_and_gradient(scale * ahead)[1]
        books.exchange(books.one, books.one if books.exchanges else 0.0)
        z = ahead - step * g
        if g @ (z - old) > 0:
            t = 1.0
        after = (1 + np.sqrt(1 + 4 * t * t)) / 2
        ahead = z + (t - 1) / after * (z - old)
        t, old = after, z
        books.write(books.objective.value(scale * z))
