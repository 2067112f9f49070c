"""L_i of functions that nobody has bounded: power iteration on every client's Hessian, by differences of its gradients,

    v <- (grad f_i(w + h v) - grad f_i(w - h v)) / (2h),     L_i ~ the largest ||that|| / ||v||,

for all clients at once, at a few random points around the start. It is a lower bound: curvature may be larger elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from errorfeedback.core import Lifted, PerClient, Point
from errorfeedback.problems.base import Problem
from errorfeedback.problems.own import KnownNorms

CHECKED = 1e-3
"""A given L_i is refused where the curvature that was seen is larger by more than this share, which differences may err."""


@dataclass(frozen=True)
class Estimated:
    """Estimate every L_i at `points` points within about `radius` of the start, by `steps` of power iteration at each. Steps
    of rules that use them are heuristics: no certificate says that their theorem held."""

    points: int = 3
    steps: int = 10
    radius: float = 1.0

    def __post_init__(self) -> None:
        for name, number in (("points", self.points), ("steps", self.steps)):
            if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 1:
                raise ValueError(f"{name} = {number!r}; it must be a whole number of at least 1")
        if not (np.isfinite(self.radius) and self.radius >= 0):
            raise ValueError(f"radius = {self.radius}; it must be finite and not negative")

    def L_i(self, problem: Problem, seed: int = 0) -> PerClient:
        """The estimates of all clients."""
        draw, start = np.random.default_rng([seed, 3]), problem.support.gather(problem.restrict(problem.x0))
        largest = np.zeros(problem.n)
        for k in range(self.points):
            w = Lifted((start + (k > 0) * self.radius * draw.standard_normal(len(start))).astype(problem.dtype))
            v = Lifted(draw.standard_normal(len(w)))
            for _ in range(self.steps):
                v, norms = _bent(problem, w, v)
                largest = np.fmax(largest, norms)
        return PerClient(largest)


def _bent(problem: Problem, w: Lifted, v: Lifted) -> tuple[Lifted, PerClient]:
    """Every client's Hessian times its v of length 1, and the lengths of that."""
    s = problem.support
    lengths = np.sqrt(s.norms2(v))
    unit = v / s.repeat(PerClient(np.where(lengths > 0, lengths, 1.0)))
    h = float(np.finfo(problem.dtype).eps) ** (1 / 3) * (1 + np.sqrt(s.norms2(w)))
    step = s.repeat(PerClient(h)) * unit
    ahead, behind = np.empty((2, s.size), dtype=problem.dtype)
    problem.gradients(Point(own=Lifted((w + step).astype(problem.dtype))), Lifted(ahead))
    problem.gradients(Point(own=Lifted((w - step).astype(problem.dtype))), Lifted(behind))
    bent = Lifted((ahead.astype(np.float64) - behind) / (2 * s.repeat(PerClient(h))))
    return bent, PerClient(np.sqrt(s.norms2(bent)))


def known_norms(problem: Problem, smoothness: ArrayLike | Estimated | None, seed: int = 0) -> KnownNorms | None:
    """What is known of the L_i: given and not contradicted by what was seen, estimated, or nothing."""
    if smoothness is None:
        return None
    if isinstance(smoothness, Estimated):
        return KnownNorms(smoothness.L_i(problem, seed), estimated=True)
    given = np.array(smoothness, dtype=np.float64)
    if given.shape not in ((), (problem.n,)):
        raise ValueError(f"smoothness has shape {given.shape}; give one number, or L_i of each of the {problem.n} clients")
    L_i = PerClient(np.broadcast_to(given, (problem.n,)).copy())
    for i in np.flatnonzero(~(np.isfinite(L_i) & (L_i > 0))):
        raise ValueError(f"smoothness[{i}] = {L_i[i]}; an L_i must be finite and above 0")
    seen = Estimated(points=2, steps=5).L_i(problem, seed)
    for i in np.flatnonzero(seen > L_i * (1 + CHECKED)):
        raise ValueError(
            f"smoothness[{i}] = {L_i[i]:.6g}, but the gradient of client {i} changes by {seen[i]:.6g} per unit near x0; "
            "that bounds nothing: give a true bound, or ef.Estimated()"
        )
    return KnownNorms(L_i, estimated=False)
