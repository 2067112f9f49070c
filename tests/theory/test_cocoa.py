"""CoCoA+: the dual never falls where sigma is safe, and c is as small as that can be; x goes to the penalised minimum."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from problem_pairs import pair
from reference import Client, Reference

import errorfeedback as ef
from errorfeedback.clients.order import Order
from errorfeedback.clients.shard import Shard
from errorfeedback.core import Round

L2 = 0.05
SPARSE = {"n": 6, "d": 30, "m": 4, "fill": 0.05}


def duals(problem, literal, sigma, rounds=8, l2=L2):
    """D after every round of gamma = 1."""
    method = ef.CoCoAPlus(l2=l2, epochs=20, sigma=sigma).knowing(1.0)
    shard = Shard(problem, method, np.empty(problem.support.size))
    x, values = np.zeros(problem.d), [0.0]
    for t in range(rounds):
        message = shard.round(Order(Round(t, 0), x, None))
        x = x - problem.support.scatter(message.lifted()) / problem.n
        u = np.split(shard.state.values, np.cumsum(shard.state.counts)[:-1])
        values.append(reference.dual_value(literal, u, l2))
    return np.array(values), x


def alike(n=4, d=3):
    """n clients with the same rows: all their changes are the same, and c = n."""
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((6, d)), rng.standard_normal(6)
    ours = ef.least_squares(np.tile(A, (n, 1)), np.tile(b, n), np.repeat(np.arange(n), 6))
    return ours, Reference([Client(A, b) for _ in range(n)], "squared")


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_the_dual_never_falls_and_meets_the_primal(loss):
    ours, literal = pair(loss, **SPARSE)
    assert ours.support.c < 6
    values, _ = duals(ours, literal, None, rounds=100)
    assert (np.diff(values) >= -1e-13).all()
    x = ef.solve(ours, ef.CoCoAPlus(l2=L2, epochs=20), ef.CocoaStep(), rounds=100, every=100).x
    assert values[-1] == pytest.approx(literal.value(x) + L2 / 2 * x @ x, rel=1e-3)
    assert values[-1] <= literal.value(x) + L2 / 2 * x @ x


def stretch(problem):
    """||sum_i dx_i||^2 / sum_i ||dx_i||^2 in round 0."""
    method = ef.CoCoAPlus(l2=L2, epochs=300).knowing(1.0)
    shard = Shard(problem, method, np.empty(problem.support.size))
    dx = shard.round(Order(Round(0, 0), np.zeros(problem.d), None)).lifted()
    return np.sum(problem.support.scatter(dx) ** 2) / np.sum(dx**2)


def test_c_is_as_small_as_a_safe_sigma_can_be():
    """It bounds how much longer the sum of all changes is than they are; clients that are alike reach it. With less than
    half of it the dual falls."""
    ours, literal = alike()
    assert stretch(ours) == pytest.approx(ours.support.c, rel=1e-3)
    sparse = pair(**SPARSE)[0]
    assert stretch(sparse) < sparse.support.c < sparse.n
    assert (np.diff(duals(ours, literal, None, l2=1e-3)[0]) >= -1e-12).all()
    assert (np.diff(duals(ours, literal, 0.45 * 4, l2=1e-3)[0]) < -1e-6).any()


def test_x_is_the_minimum_with_the_penalty_which_the_history_shows_where_it_is_given():
    problem = pair("logistic", n=5, d=12, m=6, fill=0.25)[0]
    options = {"rounds": 300, "every": 300, "x0": np.ones(12)}
    run = ef.solve(problem, ef.CoCoAPlus(l2=L2, epochs=5), ef.CocoaStep(), prox=ef.ElasticNet(l2=L2), **options)
    assert np.abs(problem.gradient(run.x) + L2 * run.x).max() < 1e-7
    assert run.history["f"][-1] == pytest.approx(problem.value(run.x) + L2 / 2 * run.x @ run.x, rel=1e-12)


def test_what_is_not_safe_or_not_the_same_penalty_is_refused():
    problem = pair()[0]
    with pytest.raises(ValueError, match="CocoaStep's theorem needs at least c"):
        ef.solve(problem, ef.CoCoAPlus(sigma=0.97 * problem.support.c), ef.CocoaStep(), rounds=1)
    with pytest.raises(ValueError, match="give both the same l2"):
        ef.solve(problem, ef.CoCoAPlus(l2=1.0), ef.CocoaStep(), rounds=1, prox=ef.ElasticNet(l2=0.9))
