"""The objective of sparse models: f(x) = mean logistic loss + l1 ||x||_1, the intercept penalised like the others.

What of f is smooth, and its gradient, is what clients tell; l1 is the server's. f* comes from exact proximal (quasi-)Newton
steps of the library, and is certified by a dual point, of which the library knows nothing: where u_r = P(wrong) in row r,
shrunk until |A'(y u)/m| <= l1, f* is at least the mean of the binary entropies H(u_r).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import entr, expit

import errorfeedback as ef
from racing.objective import Objective, Vector
from racing.ours import as_problem

CERTIFIED = 1e-6
"""How far f* may be above the dual value, as a share of f(0) - f*."""


@dataclass(frozen=True, eq=False)
class SparseObjective(Objective):
    """Made by `sparse_objective`."""

    l1: float = 0.0

    def value(self, x: Vector) -> float:
        return super().value(x) + self.l1 * float(np.abs(x).sum())

    def shortest_subgradient(self, x: Vector, g: Vector, l1: Vector) -> Vector:
        """The gradient of the smooth part is g."""
        return np.where(x == 0, shrunk(g, l1), g + l1 * np.sign(x))

    @cached_property
    def optimum(self) -> float:
        problem, _ = as_problem(self, power=None)
        prox = ef.ElasticNet(self.l1 * problem.scale)
        direction = ef.Curvature(price=0.0) if self.d <= 1500 else ef.LBFGS()
        stop = [ef.EstimatedGap(1e-18)]
        run = ef.solve(
            problem, ef.DGD(), ef.Armijo(), direction=direction, rounds=5000, every=5000, metrics=False, prox=prox, stop=stop
        )
        x = problem.unscaled(run.x)
        best, below = self.value(x), self.dual(x)
        if not best - below <= CERTIFIED * (self.start - best):
            raise AssertionError(f"f* is between {below} and {best}: {run.stopped}")
        return best

    def dual(self, x: Vector) -> float:
        """A lower bound on f*."""
        u = expit(-self.y * (self.A @ x))
        steepest = float(np.abs(self.transposed @ (self.y * u)).max()) / self.m
        u *= min(1.0, self.l1 / steepest) if steepest else 1.0
        return float((entr(u) + entr(1 - u)).mean())


def sparse_objective(rows: Objective, l1: float) -> SparseObjective:
    """The same rows."""
    return SparseObjective(rows.A, rows.y, rows.rows, 0.0, None, l1)


def shrunk(v: Vector, by: Vector | float) -> Vector:
    return np.asarray(np.sign(v) * np.maximum(np.abs(v) - by, 0.0))
