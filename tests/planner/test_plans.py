"""The planner's promises are the theorems', and runs keep them."""

from __future__ import annotations

from math import ceil

import numpy as np
import pytest
from theory_problems import KINDS, random_problem

import errorfeedback as ef
from errorfeedback.planner.common import Search, best_common, powers_of_two
from errorfeedback.planner.network import Pace
from errorfeedback.planner.plan import Option, origin, plan
from errorfeedback.planner.plans import plans
from errorfeedback.problems.base import Problem
from errorfeedback.runtime.ledger import ownership_bits
from errorfeedback.stepsizes.best import rules

GRADIENT_START = ef.EF21(ef.TopK(2), "gradient")
HEAD = 24 + 8
"""Bits of a frame before its values: version and check, count."""
METHODS = {"zero": ef.EF21(ef.TopK(1)), "gradient": ef.EF21(ef.TopK(1), "gradient")}


@pytest.fixture(scope="module")
def problem() -> Problem:
    return ef.synthetic(n=12, d=24, m=3, c=3)


@pytest.mark.parametrize("start", METHODS)
@pytest.mark.parametrize("rule", rules(METHODS["zero"]), ids=lambda rule: type(rule).__name__)
def test_a_run_needs_at_most_the_promised_rounds(problem: Problem, rule: ef.StepSize, start: str) -> None:
    """(1/T) sum ||grad f||^2 <= epsilon for the T of the plan; the published rule needs too many rounds to run them all."""
    goal = origin(problem, 0.3)
    promised = plan(ef.analyse(problem, ef.TopK(1)), Option("EF21", METHODS[start]), rule, goal)
    rounds = min(promised.rounds, 20_000)
    result = ef.solve(problem, METHODS[start], rule, rounds=rounds)
    mean = np.cumsum(result.history["grad_norm2"]) / np.arange(1, rounds + 2)
    assert mean[rounds - 1] <= goal.epsilon * (promised.rounds / rounds)
    assert result.certificate.holds


def test_promises_are_the_formulas_of_the_theorems(problem: Problem) -> None:
    goal = origin(problem, 1e-2)
    theory = ef.analyse(problem, ef.TopK(1))
    gd = plan(ef.analyse(problem), Option("DGD", ef.DGD()), ef.InverseL(), goal)
    assert gd.rounds == ceil(2 * problem.value(np.zeros(24)) * theory.L / goal.epsilon)
    owned = ownership_bits(problem) / problem.n
    assert gd.up_bits == pytest.approx(owned + gd.rounds * (HEAD + 64 * theory.sizes.mean()))
    assert gd.down_bits == gd.rounds * (HEAD + 64 * theory.sizes.mean())
    assert gd.memory_bytes == 0
    published = plan(theory, Option("EF21", METHODS["zero"]), ef.RareFeatures(), goal)
    G = float(np.mean(problem.support.norms2(problem.gradients_at(np.zeros(24)))))
    T = published.rounds
    bound = theory.bound(T, problem.value(np.zeros(24)), G, published.gamma)
    assert bound <= goal.epsilon
    assert theory.bound(T - 1, problem.value(np.zeros(24)), G, published.gamma) > goal.epsilon
    assert published.up_bits == pytest.approx(owned + T * ef.TopK(1).message_bits(problem.support).mean())
    upload = plan(theory, Option("EF21", METHODS["gradient"]), ef.RareFeatures(), goal)
    whole = 64 * theory.sizes.mean()
    assert upload.up_bits == pytest.approx(
        owned + HEAD + whole + upload.rounds * ef.TopK(1).message_bits(problem.support).mean()
    )
    assert upload.down_bits == pytest.approx(upload.rounds * (HEAD + whole))  # the upload is of gradients at x^0 = 0
    assert upload.memory_bytes == 8 * theory.r


@pytest.mark.parametrize("scaled", [False, True])
def test_bits_of_a_plan_are_those_of_a_run_up_and_down(problem: Problem, scaled: bool) -> None:
    """Also those of the scaling's exchange."""
    problem = ef.scaled(problem) if scaled else problem
    promised = plan(ef.analyse(problem, ef.TopK(2)), Option("EF21", GRADIENT_START), ef.Best(), origin(problem, 0.5))
    result = ef.solve(problem, GRADIENT_START, ef.Best(), rounds=promised.rounds, every=promised.rounds)
    assert result.history["uplink_bits"][-1] / problem.n == pytest.approx(promised.up_bits)
    assert result.history["downlink_bits"][-1] / problem.n == pytest.approx(promised.down_bits)
    assert promised.total_bits == promised.up_bits + promised.down_bits


def test_time_is_the_slowest_clients_and_ranks_the_plans(problem: Problem) -> None:
    """A round on a link that uploads slowly; one client is slower yet, and sets the pace."""
    goal, theory = origin(problem, 0.5), ef.analyse(problem)
    links = [ef.Network(up=1e3, down=1e6, latency=0.1)] * problem.n
    gd = plan(theory, Option("DGD", ef.DGD()), ef.InverseL(), goal, Pace.of(links))
    size = HEAD + 64 * theory.r
    owned = ownership_bits(problem) / problem.n  # told once, before the first round
    assert gd.seconds == pytest.approx(0.2 + owned / 1e3 + gd.rounds * (0.2 + size / 1e3 + size / 1e6))
    links[3] = ef.Network(up=10, down=1e6)
    own = HEAD + 64 * theory.sizes[3]
    slow = plan(theory, Option("DGD", ef.DGD()), ef.InverseL(), goal, Pace.of(links))
    assert slow.seconds == pytest.approx(owned / 10 + gd.rounds * (own / 10 + own / 1e6))
    found = plans(problem, goal, Pace.of(links))
    assert [p.seconds for p in found] == sorted(p.seconds for p in found if p.seconds is not None)
    assert [p.total_bits for p in found] != sorted(p.total_bits for p in found)


def test_marina_promises_mean_bits(problem: Problem) -> None:
    goal = origin(problem, 0.5)
    method = ef.MARINA(ef.RandK(2))
    promised = plan(ef.analyse(problem, ef.RandK(2)), Option("MARINA", method), ef.MarinaAB(), goal)
    runs = [ef.solve(problem, method, ef.MarinaAB(), rounds=400, seed=s, every=400) for s in range(5)]
    sent = np.mean([run.history["uplink_bits"][-1] for run in runs]) / problem.n - HEAD - 64 * problem.support.sizes.mean()
    assert sent / 400 == pytest.approx(promised.bits_per_round, rel=0.1)
    assert promised.in_expectation


def test_every_method_rule_and_level_is_there(problem: Problem) -> None:
    found = plans(problem, origin(problem, 1e-3))
    names = {p.method for p in found}
    levels = powers_of_two(problem.support.r)
    assert {"DGD", "MARINA PermK"} <= names
    for k in levels:
        assert f"MARINA Rand{k}" in names
        assert {p.rule for p in found if p.kind == "TopK" and p.k == k} == {
            type(rule).__name__ for rule in rules(METHODS["zero"])
        }
    assert any(p.exact_features for p in found)
    assert [p.total_bits for p in found] == sorted(p.total_bits for p in found)


@pytest.mark.parametrize("kind", KINDS)
def test_the_judge_agrees_with_the_plans(kind: str) -> None:
    """The search's quick formula is the price of the convex (or weighted) rule, up to its approximate L_i."""
    problem = random_problem(kind, 3)
    start = origin(problem, 1e-3)
    search = Search(problem, start)
    rule = ef.Convex() if "penalty" not in kind else ef.Weighted()
    for price, size, k in search.prices([1, 2], [1, 2]):
        option = search.option(size, k)
        theory = ef.analyse(problem, option.method.compressor)
        if theory.alpha == 1:
            assert price == np.inf
        else:
            assert price == pytest.approx(plan(theory, option, rule, start).total_bits, rel=0.1)


def test_the_search_finds_the_best_of_its_grid_on_a_planted_problem() -> None:
    """A steep intercept on rare, flat features: exact is worth it, and nothing else is common."""
    rng = np.random.default_rng(0)
    n, own = 20, 16
    A = np.zeros((4 * n, n * own + 1))
    for i in range(n):
        A[4 * i : 4 * i + 4, i * own : (i + 1) * own] = rng.normal(size=(4, own)) * 0.05
    A[:, -1] = 1.0
    problem = ef.least_squares(A, rng.normal(size=4 * n), clients=n)
    start = origin(problem, 1e-3)
    slow_up = Pace.of([ef.Network(up=1e3, down=1e6)] * n)
    found = best_common(problem, powers_of_two(problem.support.r), start, slow_up)
    best = min(found, key=lambda p: p.price)
    gd = plan(ef.analyse(problem), Option("DGD", ef.DGD()), ef.InverseL(), start, slow_up)
    assert best.exact_features == 1
    assert best.k == 1
    assert best.price < gd.price / 3
    everything = plans(problem, start, slow_up)
    assert min(p.price for p in everything if p.kind == "TopK") > best.price


def test_a_loose_goal_is_refused(problem: Problem) -> None:
    for epsilon in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(ValueError, match="epsilon ="):
            origin(problem, epsilon)


def test_single_features_leave_nothing_to_leave_out() -> None:
    problem = ef.least_squares(np.eye(3), np.ones(3), clients=3)
    found = plans(problem, origin(problem, 0.1))
    assert {p.method for p in found if p.kind != "few bits"} == {"DGD", "MARINA PermK"}
    assert "nothing for TopK" in ef.inspect(problem).verdict.error_feedback


def test_a_start_that_is_the_optimum_leaves_nothing_to_plan() -> None:
    with pytest.raises(ValueError, match="x = 0 minimises f"):
        ef.inspect(ef.least_squares(np.eye(3), np.zeros(3), clients=3))
