"""`ef.inspect`: the facts, the table, the verdict, the page."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import sparse

import errorfeedback as ef
from errorfeedback.planner.census import census, histogram, pattern
from errorfeedback.planner.contestants import BY_DEFAULT
from errorfeedback.planner.inspection import Inspection
from errorfeedback.problems.base import Problem
from errorfeedback.report.inspection_figures import costs, rarity
from errorfeedback.report.inspection_page import inspection_page

LINK = ef.Network(up="1Mbit/s", down="10Mbit/s", latency="50ms")


@pytest.fixture(scope="module")
def problem() -> Problem:
    rng = np.random.default_rng(1)
    A = sparse.random_array((200, 30), density=0.15, rng=rng, format="csr")
    return ef.logistic(A, np.arange(200) % 2, ef.Shuffled(20), intercept=True)


@pytest.fixture(scope="module")
def seen(problem: Problem) -> Inspection:
    return ef.inspect(problem, network=LINK)


def test_the_census_counts(problem: Problem) -> None:
    facts = census(problem)
    owned = np.zeros((problem.n, problem.d), dtype=bool)
    for i in range(problem.n):
        owned[i, problem.support.features(i)] = True
    assert (facts.c, facts.r) == (owned.sum(axis=0).max(), owned.sum(axis=1).max())
    assert facts.commonest[0].name == "intercept"
    assert facts.commonest[0].clients == 20
    assert facts.rarest[0].clients == owned.sum(axis=0).min()
    assert sum(facts.rarity.values()) == problem.d
    assert sum(facts.holdings.values()) == problem.n
    assert np.array_equal(pattern(problem.support), owned)
    assert facts.nonzeros == problem.A.nnz


def test_a_large_pattern_is_grouped() -> None:
    problem = ef.synthetic(n=40, d=90, m=2, c=4)
    picture = pattern(problem.support, most=7)
    assert picture.shape == (7, 7)
    clients, features = np.arange(40) * 7 // 40, np.arange(90) * 7 // 90
    whole = pattern(problem.support)
    assert picture[2, 3] == pytest.approx(whole[np.ix_(clients == 2, features == 3)].mean())


@pytest.mark.parametrize("values", [[1], [3, 3], [1, 2, 9, 1000], list(range(40, 300)), [7, 56]])
def test_a_histogram_loses_nobody(values: list[int]) -> None:
    found = histogram(np.array(values))
    assert sum(found.values()) == len(values)
    for label, height in found.items():
        lo, _, hi = label.partition("-")
        assert height == sum(int(lo) <= v <= int(hi or lo) for v in values)


def test_names_are_used(problem: Problem) -> None:
    names = [f"word{j}" for j in range(30)] + ["one"]
    assert census(problem, names).commonest[0].name == "one"
    with pytest.raises(ValueError, match="2 names for 31 columns"):
        census(problem, ["a", "b"])


def test_the_winner_is_the_cheapest_and_has_a_reason(seen: Inspection) -> None:
    assert seen.verdict.winner is seen.plans[0]
    assert seen.verdict.winner.seconds == min(p.seconds for p in seen.plans)
    assert seen.verdict.winner.method in seen.verdict.reason


def test_what_to_run_stands_first_and_is_measured(seen: Inspection, problem: Problem) -> None:
    trial = seen.trial
    assert trial is not None
    assert str(seen.verdict).startswith("Run `errorfeedback train` as it is")
    assert trial.k is None
    costs = {e.label: e.cost(trial.contest.level()) for e in trial.contest.entries}
    assert costs[BY_DEFAULT] == min(cost for label, cost in costs.items() if label != "GD, InverseL")
    assert max(k or 0 for k in trial.levels.values()) == problem.support.r  # sending everything is among what is tried
    assert "worst case" in str(seen.verdict)


def test_without_a_trial_it_says_so(problem: Problem) -> None:
    seen = ef.inspect(problem, rounds=0)
    assert seen.trial is None
    assert "not tried" in str(seen.verdict).splitlines()[0]
    assert json.loads(json.dumps(seen.json()))["trial"] is None


def test_it_says_plainly_when_topk_will_not_help() -> None:
    """Condition (ii) can only be an equality: plain TopK never promises fewer bits than DGD that sends |J_i| numbers."""
    seen = ef.inspect(ef.synthetic(n=20, d=40, m=3, c=20), rounds=0)
    gd = next(p for p in seen.plans if p.method == "DGD")
    assert min(p.up_bits for p in seen.plans if p.kind in ("TopK", "exact")) >= gd.up_bits
    assert min(p.total_bits for p in seen.plans if p.kind in ("TopK", "exact")) >= gd.total_bits
    assert not seen.verdict.top_k.helps
    assert "Error feedback with TopK will not help here by the theory" in seen.verdict.error_feedback


def test_it_says_so_when_topk_helps() -> None:
    rng = np.random.default_rng(0)
    A = np.hstack([np.kron(np.eye(10), rng.normal(size=(4, 16)) * 0.05), np.ones((40, 1))])
    link = ef.Network(up="1kbit/s", down="1Mbit/s")
    seen = ef.inspect(ef.least_squares(A, rng.normal(size=40), clients=10), network=link, rounds=0)
    assert seen.verdict.top_k.helps
    assert "Error feedback with TopK helps by the theory" in seen.verdict.error_feedback


def test_json_is_json_and_complete(seen: Inspection) -> None:
    found = json.loads(json.dumps(seen.json()))
    assert found["census"]["c"] == seen.census.c
    assert len(found["plans"]) == len(seen.plans)
    assert found["verdict"]["winner"]["method"] == seen.verdict.winner.method
    assert {c["name"] for c in found["constants"]} >= {"L", "L_i", "L_tilde", "L_plus"}


def test_the_text_has_the_facts_the_table_and_the_verdict(seen: Inspection) -> None:
    text = str(seen)
    for word in ("clients n: 20", "intercept (20)", "L_plus", "DGD", "InverseL", "time", seen.verdict.reason, "down"):
        assert word in text


def test_levels_can_be_chosen(problem: Problem) -> None:
    seen = ef.inspect(problem, k=[3])
    assert {p.k for p in seen.plans if not p.exact_features} == {None, 3}
    with pytest.raises(ValueError, match="k = 0"):
        ef.inspect(problem, k=[0])


def test_figures_and_page(seen: Inspection) -> None:
    assert sum(sum(v) for v in rarity(seen).panels[0].series.values()) == seen.census.d
    assert len(costs(seen).panels) == 2
    html = inspection_page(seen, "test", "errorfeedback inspect test").html()
    for word in ("Before you run: test", "intercept", seen.verdict.winner.method, "errorfeedback inspect test"):
        assert word in html


def test_only_linear_models_are_inspected() -> None:
    with pytest.raises(ValueError, match="generalised linear models"):
        ef.inspect(ef.autoencoder(np.eye(4), clients=2, code=1))
