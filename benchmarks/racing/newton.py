"""Second-order peers.

Newton: every client sends loss, gradient and the upper triangle of its Hessian on J_i; full steps, halved where the loss
does not fall. At the last point, which the Newton decrement announces, only the loss is asked for.
Newton-CG: one exchange per product with the Hessian; conjugate gradients preconditioned by the diagonal's power (0, 1/2, 1;
the best counts) until ||H s + g|| <= min(1/2, sqrt(||g||/||g(0)||)) ||g||, then a step with backtracking.
"""

from __future__ import annotations

import numpy as np

from racing.books import HEAD, LOSS, VALUE, Books, Curve, recorded
from racing.lbfgs import METRICS
from racing.objective import Objective, Vector

ARMIJO = 1e-4
LARGEST = 2000
"""Features of a client: nobody sends Hessians of more than 16 MB."""


def newton(objective: Objective, target: float, most: int) -> dict[str, Curve]:
    if objective.sizes.max() > LARGEST:
        return {}
    triangle = VALUE * objective.sizes * (objective.sizes + 1) / 2

    def run(books: Books) -> None:
        x, step, slope, f, t = np.zeros(objective.d), np.zeros(objective.d), 0.0, np.inf, 1.0
        while True:
            new, g = objective.value_and_gradient(x + t * step)
            books.exchange(HEAD + LOSS, books.one if books.exchanges else 0.0)
            books.write(new)
            books.also(triangle + books.one - HEAD)
            if new > f + ARMIJO * t * slope:
                t /= 2
                continue
            x, f, t = x + t * step, new, 1.0
            step = objective.newton_step(x, g)
            slope = float(g @ step)

    return {"": recorded(objective, target, most, run)}


def newton_cg(objective: Objective, target: float, most: int) -> dict[str, Curve]:
    def with_metric(power: float) -> Curve:
        inverse = objective.diagonal**-power

        def run(books: Books) -> None:
            x, f, g = _told(books, np.zeros(objective.d))
            start = np.linalg.norm(g)
            while True:
                size = float(np.linalg.norm(g))
                step = _conjugate_gradients(books, x, g, inverse, min(0.5, np.sqrt(size / start)) * size, f)
                slope, t = float(g @ step), 1.0
                while True:
                    trial, new, gradient = _told(books, x + t * step)
                    if new <= f + ARMIJO * t * slope:
                        break
                    t /= 2
                x, f, g = trial, new, gradient

        return recorded(objective, target, most, run)

    return {name: with_metric(power) for name, power in METRICS.items()}


def _told(books: Books, x: Vector) -> tuple[Vector, float, Vector]:
    f, g = books.objective.value_and_gradient(x)
    books.exchange(books.one + LOSS, books.one if books.exchanges else 0.0)
    books.write(f)
    return x, f, g


def _conjugate_gradients(books: Books, x: Vector, g: Vector, inverse: Vector, tolerance: float, f: float) -> Vector:
    """s with ||H s + g|| <= tolerance."""
    product = books.objective.hessian(x)
    s, r = np.zeros_like(g), -g
    z = inverse * r
    p, rz = z, float(r @ z)
    while np.linalg.norm(r) > tolerance:
        Hp = product @ p
        books.exchange(books.one, books.one)
        books.write(f)  # x stands still
        a = rz / float(p @ Hp)
        s, r = s + a * p, r - a * Hp
        z = inverse * r
        old, rz = rz, float(r @ z)
        p = z + rz / old * p
    return s
