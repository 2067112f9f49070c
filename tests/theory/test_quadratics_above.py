"""docs/theory.md, section 28: a step to the minimum of a quadratic that touches F and is nowhere below it never raises F."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.core import Point
from errorfeedback.sparsity.pairs import pairs_of, symmetric


def mean_of(problem, x, above):
    """The mean of the clients' matrices, in no units."""
    pairs = pairs_of(problem.support)
    out = np.empty(pairs.size)
    problem.hessians(Point(shared=x), out, above)
    return symmetric(pairs.scatter(out) / problem.n, problem.d) / np.outer(problem.hessian_units, problem.hessian_units)


def instance(seed, length):
    """Rows of that length or of a thousandth of it."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((60, 6)) * np.where(rng.random(60) < 0.5, length, 1e-3 * length)[:, None]
    problem = ef.logistic(A, rng.integers(0, 2, 60), clients=6)
    return problem, rng.standard_normal(6)


def step(problem, x, above):
    """A step by the matrices, and what it promises."""
    B, g = mean_of(problem, x, above), problem.gradients_at(x)
    g = problem.support.scatter(g) / problem.n
    s = -np.linalg.solve(B + 1e-13 * np.trace(B) * np.eye(len(B)), g)
    return s, -(g @ s) / 2


@pytest.mark.parametrize("length", [0.1, 1.0, 30.0, 1e3, 1e5])
@pytest.mark.parametrize("seed", range(6))
def test_a_step_by_quadratics_above_lowers_f_by_what_it_promises(seed, length):
    problem, x = instance(seed, length)
    for _ in range(5):
        s, promise = step(problem, x, True)
        before, after = problem.value(x), problem.value(x + s)
        assert promise > 0
        assert after <= before - promise + 1e-9 * before
        x = x + s


def test_a_step_by_hessians_raises_f_where_it_has_kinks():
    for seed in range(6):
        problem, x = instance(seed, 1e3)
        s, _ = step(problem, x, False)
        assert problem.value(x + s) > 1e3 * problem.value(x)


@pytest.mark.parametrize("share", [1.0, 0.98])
def test_the_quadratic_is_as_flat_as_it_can_be(share):
    """One row, twice: it touches at x and at -x, and with 2% less it is above F no more."""
    for size in (0.3, 2.0, 20.0):
        problem = ef.logistic(np.array([[1.0], [-1.0]]), [1, -1], clients=1)
        x, s = np.array([-size]), np.array([2 * size])
        g, B = problem.gradients_at(x), share * mean_of(problem, x, True)
        model = problem.value(x) + g @ s + s @ B @ s / 2
        assert bool(problem.value(x + s) <= model + 1e-12) is (share == 1.0)
