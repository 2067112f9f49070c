"""prox-EF21 ends where the optimality conditions of f + R hold; the intercept is free."""

from __future__ import annotations

import numpy as np
import pytest
from problem_pairs import pair

import errorfeedback as ef


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.1), (0.05, 0.0), (0.03, 0.05)])
@pytest.mark.parametrize("rule", [ef.Automatic(), ef.Constant(0.05)], ids=["automatic", "constant"])
def test_the_end_is_optimal(l1, l2, rule):
    """grad f + l2 x + l1 sign(x) = 0 where x is not 0, and |grad f| <= l1 where it is."""
    problem = pair("logistic", n=5, d=12, m=4)[0]
    result = ef.solve(problem, ef.EF21(ef.TopK(1)), rule, rounds=20_000, every=20_000, prox=ef.ElasticNet(l1, l2))
    x, g, near = result.x, problem.gradient(result.x), 1e-5
    assert np.abs((g + l2 * x + l1 * np.sign(x))[x != 0]).max(initial=0.0) < near
    assert np.abs(g[x == 0]).max(initial=0.0) <= l1 + near
    assert not l1 or 0 < (x == 0).sum() < 12


def test_the_prox_is_the_minimum_it_stands_for():
    rng = np.random.default_rng(0)
    v, l1, l2, gamma = rng.standard_normal(50), rng.random(50), rng.random(50), 0.7
    net, x = ef.ElasticNet(l1, l2), v.copy()
    net.step(x, gamma)

    def objective(u):
        return gamma * net.value(u) + 0.5 * np.sum((u - v) ** 2)

    for _ in range(200):
        assert objective(x) <= objective(x + 1e-3 * rng.standard_normal(50))


def test_the_loss_in_the_history_includes_the_penalty():
    problem = pair("logistic")[0]
    h = ef.solve(problem, ef.DGD(), ef.Constant(0.1), rounds=0, x0=np.ones(12), prox=ef.ElasticNet(0.5, 1.0)).history
    assert h["f"][0] == pytest.approx(problem.value(np.ones(12)) + 12 * (0.5 + 0.5))


def test_bad_penalties_are_refused():
    with pytest.raises(ValueError, match="l1 = -1"):
        ef.ElasticNet(l1=-1)
    with pytest.raises(ValueError, match=r"l2 has shape \(3,\)"):
        ef.solve(pair()[0], ef.DGD(), ef.Constant(0.1), rounds=1, prox=ef.ElasticNet(l2=np.ones(3)))


def test_the_shortest_subgradient_is_zero_at_a_solution_and_only_there():
    """Of f + R with an L1 part: the history has it as residual2."""
    problem, prox = ef.synthetic(n=4, d=8, m=3, c=2), ef.ElasticNet(l1=0.05, l2=0.1)
    run = ef.solve(problem, ef.DGD(), ef.InverseL(), rounds=2000, every=2000, prox=prox)
    assert run.history["residual2"][-1] < 1e-20
    assert run.history["grad_norm2"][-1] > 1e-4
    x = problem.restrict(run.x)
    moved = x + 1e-3 * np.sign(x)
    assert np.linalg.norm(prox.shortest_subgradient(moved, problem.gradient(moved))) > 1e-5
