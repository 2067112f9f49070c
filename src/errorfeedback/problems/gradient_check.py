"""Gradients against differences of values, for all clients at once:

    (f_i(w + h v) - f_i(w - h v)) / (2h) = <grad f_i(w), v> + O(h^2),        h = eps^(1/3), v of random signs.

A client fails that differs at all of a few points ever nearer to the start: near a kink (ReLU) one point may differ. Whose
gradient is wrong is narrowed down to the coordinate by halves.
"""

from __future__ import annotations

import numpy as np

from errorfeedback.core import Floats, Lifted, PerClient, Point
from errorfeedback.problems.base import Problem

RADII = (0.1, 0.01, 0.001)
"""How far from the start the points are."""
CURVED, ROUNDED = 1e3, 50.0
"""What third derivatives and the rounding of values may do: CURVED h^2 sum|g_j| + ROUNDED eps |f| / h."""


def check_start(problem: Problem) -> None:
    """Raise where a value or a gradient is not finite at the start."""
    own = problem.support.gather(problem.restrict(problem.x0))
    values, grads = _values_and_gradients(problem, own)
    ends, first = problem.support.indptr, problem.support.first
    for i in np.flatnonzero(~np.isfinite(values)):
        raise ValueError(f"client {first + i}: its value at x0 is {values[i]}; give another x0, or mend the function")
    for p in np.flatnonzero(~np.isfinite(grads)):
        client = first + int(np.searchsorted(ends, p, side="right")) - 1
        column = problem.columns[problem.support.indices[p]]
        raise ValueError(f"client {client}: its gradient at x0 is {grads[p]} at coordinate {column}")


def check_gradients(problem: Problem, *, seed: int = 0) -> None:
    """Raise where some client's gradient of the `problem` is not that of its values, and name the client and the coordinate.
    `seed`: of the points and directions that are looked at.

    >>> import errorfeedback as ef
    >>> wrong = lambda x: (float(x @ x), 3 * x)
    >>> ef.check_gradients(ef.problem([wrong], [[0, 1]], d=2, check=False))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    ValueError: client 0: the gradient at coordinate 0 is ..., but values near x0 change by ...
    """
    draw, start = np.random.default_rng([seed, 2]), problem.support.gather(problem.restrict(problem.x0))
    wrong = np.ones(problem.n, dtype=bool)
    for radius in RADII:
        w = Lifted((start + radius * draw.standard_normal(len(start))).astype(problem.dtype))
        v = draw.choice([-1.0, 1.0], size=len(w)).astype(problem.dtype)
        gap, allowed = _gaps(problem, w, v)
        wrong &= ~(gap <= allowed)
        if not wrong.any():
            return
    client = int(np.flatnonzero(wrong)[0])
    segment = slice(problem.support.indptr[client], problem.support.indptr[client + 1])
    _name(problem.shard(client, client + 1), Lifted(w[segment]), v[segment])


def _gaps(problem: Problem, w: Lifted, v: Floats) -> tuple[PerClient, PerClient]:
    """|difference - slope| of every client, and how much of it is allowed."""
    eps = float(np.finfo(problem.dtype).eps)
    h = eps ** (1 / 3)
    values, grads = _values_and_gradients(problem, w)
    step = Lifted((h * v * np.maximum(1.0, np.abs(w))).astype(problem.dtype))
    ahead, behind = (problem.values(Point(own=Lifted(w + s))) for s in (step, Lifted(-step)))
    slopes, size = problem.support.sums(Lifted(grads * step)), problem.support.sums(Lifted(np.abs(grads * step)))
    largest = np.maximum(np.maximum(np.abs(ahead), np.abs(behind)), np.abs(values))
    return PerClient(np.abs((ahead - behind) / 2 - slopes)), PerClient(CURVED * h**2 * size + ROUNDED * eps * largest)


def _name(alone: Problem, w: Lifted, v: Floats) -> None:
    """Raise with the coordinate of one client that differs most."""
    places = np.arange(len(w))
    while len(places) > 1:
        halves = np.array_split(places, 2)
        gaps = [_gaps(alone, w, np.where(np.isin(np.arange(len(w)), half), v, 0.0))[0][0] for half in halves]
        places = halves[int(not gaps[0] >= gaps[1])]
    e = np.zeros(len(w))
    e[places] = 1.0
    h = np.finfo(alone.dtype).eps ** (1 / 3) * max(1.0, abs(float(w[places[0]])))
    ahead, behind = (alone.values(Point(own=Lifted((w + s * e).astype(alone.dtype))))[0] for s in (h, -h))
    grads, column = _values_and_gradients(alone, w)[1], alone.columns[alone.support.indices[places[0]]]
    raise ValueError(
        f"client {alone.support.first}: the gradient at coordinate {column} is {grads[places[0]]:.6g}, but values near x0 "
        f"change by {(ahead - behind) / (2 * h):.6g} per unit there; mend it, or switch the check off (check=False)"
    )


def _values_and_gradients(problem: Problem, own: Lifted) -> tuple[PerClient, Lifted]:
    values, grads = PerClient(np.empty(problem.n)), Lifted(np.empty(problem.support.size, dtype=problem.dtype))
    problem.gradients(Point(own=own), grads, values=values)
    return values, grads
