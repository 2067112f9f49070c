"""The clients' Hessians are the derivatives of their gradients."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.core import Point
from errorfeedback.sparsity.pairs import pairs_of, symmetric

STEP = 1e-5


def rows(seed=0, m=30, d=8):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((m, d)) * (rng.random((m, d)) < 0.4) * 3.0 ** rng.integers(-1, 2, d)
    A[np.arange(m), np.arange(m) % d] = 1.0
    return A, rng.integers(0, 2, m), np.repeat([0, 1, 2, 3], [3, 12, 5, 10]), rng.uniform(0.2, 2.0, m)


def make(name):
    A, y, clients, weights = rows()
    plain, kind = name.split(", ")
    loss = {"logistic": ef.logistic, "squared": ef.least_squares}[plain]
    return {
        "plain": lambda: loss(A, y, clients),
        "one-hot": lambda: loss(A != 0, y, clients),
        "intercept": lambda: loss(A, y, clients, intercept=True),
        "weights": lambda: loss(A, y, clients, sample_weight=weights),
        "scaled": lambda: ef.scaled(loss(A, y, clients)),
        "half scaled": lambda: ef.scaled(loss(A, y, clients), power=0.5),
        "scaled by density": lambda: ef.scaled(loss(A, y, clients), power=None),
        "scaled with weights": lambda: ef.scaled(loss(A, y, clients, sample_weight=weights), power=0.3),
        "a shard": lambda: loss(A, y, clients, sample_weight=weights).shard(1, 3),
        "a scaled shard": lambda: ef.scaled(loss(A, y, clients)).shard(1, 3),
    }[kind]()


KINDS = ["plain", "one-hot", "intercept", "weights", "scaled", "half scaled", "scaled by density", "scaled with weights"]
KINDS += ["a shard", "a scaled shard"]
NAMES = [f"{loss}, {kind}" for loss in ("logistic", "squared") for kind in KINDS]


def by_differences(problem, x):
    """(positions, d): the derivatives of all gradients, lifted."""
    out = np.empty((problem.support.size, problem.d))
    for k, e in enumerate(np.eye(problem.d)):
        out[:, k] = (problem.gradients_at(x + STEP * e) - problem.gradients_at(x - STEP * e)) / (2 * STEP)
    return out


@pytest.mark.parametrize("name", NAMES)
def test_hessians_are_finite_differences_of_gradients(name):
    problem = make(name)
    x, s = np.random.default_rng(1).standard_normal(problem.d), problem.support
    out = np.empty(pairs_of(s).size)
    problem.hessians(Point(shared=x), out)
    slopes, u, at = by_differences(problem, x), problem.hessian_units, 0
    for i in range(problem.n):
        J = s.indices[s.indptr[i] : s.indptr[i + 1]]
        for p, j in enumerate(J):
            for k in J[p:]:
                expected = slopes[s.indptr[i] + p, k] * u[j] * u[k]
                assert out[at] == pytest.approx(expected, rel=1e-6, abs=1e-9), (i, j, k)
                at += 1
    assert at == len(out)


@pytest.mark.parametrize("name", NAMES)
def test_quadratics_above_touch_every_f_i_and_are_nowhere_below_it(name):
    """f_i(x + s) <= f_i(x) + <grad f_i(x), s> + s'B_i s / 2; for squared losses the two are the same."""
    problem, rng = make(name), np.random.default_rng(2)
    x, support, n = rng.standard_normal(problem.d), problem.support, problem.n
    out = np.empty(pairs_of(support).size)
    problem.hessians(Point(shared=x), out, above=True)
    g, ends, at = problem.gradients_at(x), support.indptr, np.concatenate([[0], np.cumsum(pairs_of(support).sizes)])
    for far in (0.1, 3.0, 100.0):
        s = far * rng.standard_normal(problem.d)
        values = [np.empty(n), np.empty(n)]
        for point, told in zip((x, x + s), values, strict=True):
            problem.gradients(Point(shared=point), np.empty(support.size), values=told)
        rise, step = values[1] - values[0], support.gather(s) / support.gather(problem.hessian_units)
        for i in range(n):
            own = slice(ends[i], ends[i + 1])
            B, mine = symmetric(out[at[i] : at[i + 1]], ends[i + 1] - ends[i]), support.gather(s)[own]
            model = g[own] @ mine + step[own] @ B @ step[own] / 2
            assert rise[i] <= model + 1e-9 * (1 + abs(model))
            if name.startswith("squared"):
                assert rise[i] == pytest.approx(model, rel=1e-8)


def test_clients_that_stand_apart_have_the_hessians_of_their_own_points():
    problem = make("logistic, half scaled")
    x = np.random.default_rng(1).standard_normal(problem.d)
    shared, own = np.empty((2, pairs_of(problem.support).size))
    problem.hessians(Point(shared=x), shared)
    problem.hessians(Point(own=problem.support.gather(x)), own)
    np.testing.assert_allclose(own, shared, rtol=1e-12)


def test_units_bring_the_diagonal_to_about_one():
    A, y, clients, _ = rows()
    for power in (0.3, 1.0):
        problem = ef.scaled(ef.least_squares(1e3 * A, y, clients), power=power)
        pairs = pairs_of(problem.support)
        out = np.empty(pairs.size)
        problem.hessians(Point(shared=np.zeros(problem.d)), out)
        mean, d = pairs.scatter(out) / problem.n, problem.d
        diagonal = mean[[j * d - j * (j - 1) // 2 for j in range(d)]]
        assert 0.3 < diagonal.min() <= diagonal.max() < 3.0


@pytest.mark.parametrize(
    "problem",
    [
        ef.softmax(np.eye(6), np.arange(6) % 3, clients=2),
        ef.autoencoder(np.random.default_rng(0).standard_normal((8, 4)), clients=2, code=2),
        ef.logistic(np.eye(4), [0, 1, 0, 1], clients=2, regularizer=ef.NonconvexPenalty(0.1)),
        ef.scaled(ef.softmax(np.eye(6), np.arange(6) % 3, clients=2)),
    ],
    ids=["softmax", "auto-encoder", "non-convex penalty", "scaled softmax"],
)
def test_problems_without_hessians_say_so_before_round_0(problem):
    with pytest.raises(ValueError, match=r"has no Hessians to tell; use ef.LBFGS\(\) in place of ef.Curvature\(\)"):
        ef.solve(problem, ef.DGD(), ef.Armijo(), direction=ef.Curvature(), rounds=3)
    ef.solve(problem, ef.DGD(), ef.Armijo(), direction=ef.Curvature(price=np.inf), rounds=3)
