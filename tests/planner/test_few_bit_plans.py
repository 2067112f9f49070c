"""Few-bit plans: what they promise, that runs keep it, and what the verdict says of them."""

from __future__ import annotations

import json
from math import ceil

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.compressors.few_bits import FewBits
from errorfeedback.planner.inspection import Inspection
from errorfeedback.planner.network import Pace
from errorfeedback.planner.plan import Option, Plan, origin, plan
from errorfeedback.planner.plans import few_bits_for, plans
from errorfeedback.problems.base import Problem
from errorfeedback.report.inspection_figures import costs, promises
from errorfeedback.report.inspection_page import inspection_page
from errorfeedback.runtime.ledger import ownership_bits
from errorfeedback.sparsity.support import full_support

HEAD, UNIT = 24 + 8, 16
"""Bits of a frame before its values: version and check, count; and of the unit of a block."""
STARTS = ["compressed", "gradient"]
COMPRESSORS = few_bits_for(full_support(3, 1100))


@pytest.fixture(scope="module")
def problem() -> Problem:
    return ef.synthetic(n=12, d=48, m=3, c=3)


@pytest.fixture(scope="module")
def crowded() -> Inspection:
    """Every feature is on every client: c = n, where TopK has the least to promise."""
    return ef.inspect(ef.synthetic(n=20, d=400, m=3, c=20), rounds=0)


def promise(problem: Problem, compressor: FewBits, start: str, epsilon: float, rule: ef.StepSize) -> Plan:
    option = Option("EF21", ef.EF21(compressor, start))
    return plan(ef.analyse(problem, compressor), option, rule, origin(problem, epsilon))


def best(plans: list[Plan], kind: str) -> Plan:
    return next(plan for plan in plans if plan.kind == kind)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("name", COMPRESSORS)
def test_a_run_keeps_the_promise_of_rounds_and_bits(problem: Problem, name: str, start: str) -> None:
    promised = promise(problem, COMPRESSORS[name], start, 0.05, ef.Best())
    result = ef.solve(problem, ef.EF21(COMPRESSORS[name], start), ef.Best(), rounds=promised.rounds)
    h = result.history
    assert h["grad_norm2"][:-1].mean() <= origin(problem, 0.05).epsilon
    assert result.certificate.holds
    assert h["uplink_bits"][-1] / problem.n == pytest.approx(promised.up_bits)
    assert h["downlink_bits"][-1] / problem.n == pytest.approx(promised.down_bits)


def test_the_promise_is_the_theorems_formula(problem: Problem) -> None:
    """Theorem 1 with Lemma B's alpha; from the compressed start G^0 <= (1 - alpha) mean ||grad f_i||^2."""
    theory, goal = ef.analyse(problem, ef.PowersOfTwo(4)), origin(problem, 1e-3)
    promised = promise(problem, ef.PowersOfTwo(4), "compressed", 1e-3, ef.RareFeatures())
    gamma = 1 / (theory.L + theory.L_plus * np.sqrt(theory.c / theory.n) * theory.xi)
    assert promised.gamma == pytest.approx(gamma)
    G = float(np.mean((1 - theory.alpha_i) * goal.norms2))
    rounds = 2 * goal.gap / (gamma * goal.epsilon) + theory.c / theory.n * G / (theory.theta * goal.epsilon)
    assert promised.rounds == ceil(rounds)
    message = np.ceil((HEAD + UNIT + 4 * problem.support.sizes) / 8) * 8  # whole bytes
    owned = ownership_bits(problem) / problem.n
    assert promised.up_bits == pytest.approx(owned + (promised.rounds + 1) * message.mean())
    assert promised.down_bits == promised.rounds * (HEAD + 64 * problem.support.sizes.mean())
    assert promised.value_bits == 4


@pytest.mark.parametrize("c", [1, 5, 20])
def test_whatever_c_is_few_bits_promise_several_times_fewer_bits_up_than_gradient_descent(c: int) -> None:
    """And TopK, whose alpha is K/|J_i|, does not. Up and down together the gain is below 2: x goes down as it is."""
    problem = ef.synthetic(n=20, d=2000, m=3, c=c)
    ranked = plans(problem, origin(problem, 1e-3), k=[1, 16])
    gd = best(ranked, "DGD")
    rounded = [plan for plan in ranked if plan.kind == "few bits"]
    assert min(plan.up_bits for plan in rounded) < gd.up_bits / 6
    assert gd.total_bits / 2 < min(plan.total_bits for plan in rounded) < gd.total_bits / 1.6
    assert min(plan.up_bits for plan in ranked if plan.kind == "TopK") > 0.99 * gd.up_bits


def test_every_width_and_rule_is_planned(problem: Problem) -> None:
    ranked = plans(problem, origin(problem, 1e-3), k=[1])
    for name in few_bits_for(problem.support):
        rules = {plan.rule for plan in ranked if plan.wherever_it_starts == f"EF21 {name}"}
        assert rules == {plan.rule for plan in ranked if plan.kind == "TopK"}


def test_four_bits_for_many_entries_are_planned_in_blocks() -> None:
    """One unit for 5,000 entries has alpha = 0.75 and one for 1,024 has 0.89: 16 bits more, and fewer rounds."""
    rng = np.random.default_rng(0)
    problem = ef.least_squares(rng.standard_normal((6, 5000)), np.ones(6), 3)
    best = {plan.wherever_it_starts: plan for plan in reversed(plans(problem, origin(problem, 1e-3), k=[1]))}
    whole, blocks = best["EF21 PowersOfTwo(4)"], best["EF21 PowersOfTwo(4) in blocks"]
    assert blocks.rounds < whole.rounds
    assert blocks.up_bits < whole.up_bits
    assert blocks.bits_per_round == whole.bits_per_round + 4 * 16


def test_time_on_the_network_is_that_of_small_messages_up_and_of_x_down(problem: Problem) -> None:
    links = Pace.of([ef.Network(up=1e3, down=1e5, latency=0.1)] * problem.n)
    theory, goal = ef.analyse(problem, ef.Uniform(8)), origin(problem, 0.1)
    made = plan(theory, Option("EF21", ef.EF21(ef.Uniform(8), "compressed")), ef.Best(), goal, links)
    up, down = HEAD + UNIT + 8 * theory.r, HEAD + 64 * theory.r
    before = 0.2 + (goal.setup_up + up) / 1e3
    assert made.seconds == pytest.approx(before + made.rounds * (0.2 + up / 1e3 + down / 1e5))


def test_the_verdict_says_that_few_bits_help_where_leaving_numbers_out_does_not(crowded: Inspection) -> None:
    verdict, rounded, gd = crowded.verdict, best(crowded.plans, "few bits"), best(crowded.plans, "DGD")
    assert verdict.winner is rounded
    assert verdict.helps
    assert verdict.few_bits.helps
    assert not verdict.top_k.helps
    assert "Error feedback with few bits helps by the theory (docs/theory.md, section 7)" in verdict.few_bits.text
    assert f"{gd.up_bits / rounded.up_bits:.3g} times fewer bytes up" in verdict.few_bits.text
    assert f"{gd.total_bits / rounded.total_bits:.3g} times fewer" in verdict.few_bits.text
    assert "Error feedback with TopK will not help here by the theory (docs/theory.md, section 8)" in verdict.top_k.text
    assert verdict.few_bits.text in str(verdict)


def test_the_verdict_says_that_few_bits_do_not_help_where_only_rounds_take_time() -> None:
    """Bits are free: every round too many is lost, and gradient descent has the fewest."""
    problem = ef.synthetic(n=20, d=400, m=3, c=20)
    seen = ef.inspect(problem, network=ef.Network(latency="50ms"), rounds=0)
    assert not seen.verdict.few_bits.helps
    assert "Error feedback with few bits will not help here by the theory" in seen.verdict.few_bits.text
    assert "times fewer bytes up" in seen.verdict.few_bits.text


def test_json_page_and_figures_show_them(crowded: Inspection) -> None:
    kept = json.loads(json.dumps(crowded.json()))
    assert {plan["value_bits"] for plan in kept["plans"] if plan["kind"] == "few bits"} == {4, 6, 8, 9}
    assert kept["verdict"]["few_bits"] == {"helps": True, "text": crowded.verdict.few_bits.text}
    sent, rounds = promises(crowded).panels
    assert len(set(sent.labels)) == len(sent.labels)
    assert {"DGD", "PowersOfTwo(4)", "SmallFloat(3, 2)", "Uniform(8)", "Uniform(9) in blocks"} <= set(sent.labels)
    least = sent.labels.index("PowersOfTwo(4)"), sent.labels.index("DGD")
    assert sent.series["up"][least[0]] < sent.series["up"][least[1]] / 6
    assert rounds.series["rounds"][least[0]] > rounds.series["rounds"][least[1]]
    assert "EF21, few bits" in {curve.label for curve in costs(crowded).panels[0].curves}
    html = inspection_page(crowded, "test").html()
    for words in ("Error feedback with few bits helps", "Error feedback with TopK helps", "EF21 PowersOfTwo(4)"):
        assert words in html


def test_the_first_table_has_every_method_once_and_the_second_every_plan(crowded: Inspection) -> None:
    names = [row[0].removesuffix(", zero start").removesuffix(", compressed start") for row in crowded.rows(5)]
    assert len(set(names)) == len(names)
    assert {"DGD", best(crowded.plans, "few bits").method, best(crowded.plans, "TopK").wherever_it_starts} <= set(names)
    assert len(crowded.rows()) == len(crowded.plans)
