"""Every checker says "holds" on numbers where the claim holds, and "does not hold" where it does not."""

from __future__ import annotations

import numpy as np
import pytest
from experiments.fabricated import N, constants, trace

from errorfeedback.experiments import (
    classification,
    ef21_step_tolerance,
    figure_1,
    figure_4,
    figure_5,
    figure_6,
    figure_7,
    marina_against_diana,
    perm_k_quadratics,
    regression,
    table_1,
)
from errorfeedback.experiments.curves import Trace, ahead, common_level
from errorfeedback.experiments.jobs import Record
from errorfeedback.experiments.regression import GD, PUBLISHED, SHARES, STANDARD, THEOREM
from errorfeedback.report.page import Badge, Claim


def holds(claims: list[Claim]) -> list[bool | None]:
    return [claim.holds for claim in claims]


def gaps(*factors: float) -> dict:
    """The three problems with a new step that is so many times larger and as many times faster."""
    return {
        where: {
            STANDARD: trace(STANDARD, rate=0.001, gamma=1.0),
            THEOREM: trace(THEOREM, rate=0.001 * factor, gamma=factor),
            GD: trace(GD, rate=0.5),
        }
        for where, factor in zip(SHARES, factors, strict=True)
    }


def test_reach_interpolates_between_recorded_rounds():
    assert trace(rate=0.1).reach(np.exp(-0.55)) == pytest.approx(5.5)
    assert trace(rate=0.1).reach(np.exp(-0.55), "bits") == pytest.approx(5.5 * 70)
    assert trace(rate=0.1).reach(1e-30) == np.inf


def test_ahead_is_measured_at_a_level_that_both_reach():
    fast, slow = trace(rate=0.2), trace(rate=0.01)
    assert common_level(fast, slow) == pytest.approx(np.exp(-2.0))
    assert ahead(fast, slow, "rounds") == pytest.approx(20)


def test_the_gap_is_large_then_small():
    assert holds(regression.gap_claims(gaps(100, 5, 1.2), THEOREM, "")) == [True, True, True]


@pytest.mark.parametrize(
    ("factors", "verdicts"),
    [((5, 3, 1.2), [False, True, True]), ((100, 200, 1.2), [True, False, True]), ((100, 5, 1.7), [True, True, False])],
)
def test_the_gap_claims_can_fail_one_by_one(factors, verdicts):
    assert holds(regression.gap_claims(gaps(*factors), THEOREM, "")) == verdicts


def test_a_larger_step_that_is_not_faster_is_no_large_gap():
    found = gaps(100, 5, 1.2)
    where = next(iter(SHARES))
    found[where] = found[where] | {THEOREM: trace(THEOREM, rate=0.001, gamma=100.0)}
    assert regression.gap_claims(found, THEOREM, "")[0].holds is False


def test_missing_curves_leave_claims_open():
    found = {where: {} for where in SHARES}
    assert holds(regression.gap_claims(found, THEOREM, "")) == [None] * 3
    assert regression.theorem_claim(found).holds is None
    assert figure_7.gd_is_ahead(found, STANDARD, "rounds").holds is None
    assert figure_6.published_is_allowed(found).holds is None


@pytest.mark.parametrize("held", [True, False])
def test_theorem_1_is_reported_as_its_certificates_say(held: bool):
    found = {where: {THEOREM: trace(THEOREM, theorem_1={"holds": held, "text": "…"})} for where in SHARES}
    assert regression.theorem_claim(found).holds is held


def test_gd_ahead_depends_on_the_axis():
    found = {where: {GD: trace(GD, rate=0.2, bits=64 * 25), THEOREM: trace(THEOREM, rate=0.05, bits=70)} for where in SHARES}
    assert figure_7.gd_is_ahead(found, THEOREM, "rounds").holds is True
    assert figure_7.gd_is_ahead(found, THEOREM, "bits").holds is False


@pytest.mark.parametrize(("published", "allowed"), [(1.0, True), (3.0, False)])
def test_a_published_step_above_the_theorem_is_not_allowed(published: float, allowed: bool):
    found = {where: {THEOREM: trace(gamma=2.0), PUBLISHED: trace(gamma=published)} for where in SHARES}
    assert figure_6.published_is_allowed(found).holds is allowed


@pytest.mark.parametrize(("gain", "verdict"), [(10.0, True), (8.1, True), (7.9, False), (13.0, False)])
def test_about_ten_times(gain: float, verdict: bool):
    curves = {classification.STANDARD: trace(gamma=1.0), classification.ADAPTIVE: trace(gamma=gain)}
    assert figure_4.step_gain({"a9a": curves}, "a9a", classification.ADAPTIVE).holds is verdict


@pytest.mark.parametrize(
    ("rate", "finished", "verdict"),
    [(0.1, True, True), (0.005, True, False), (0.1, False, False)],
    ids=["faster", "slower", "left"],
)
def test_adaptive_is_ahead_only_if_faster_and_steady(rate: float, finished: bool, verdict: bool):
    curves = {classification.STANDARD: trace(rate=0.01), classification.ADAPTIVE: trace(rate=rate, finished=finished)}
    assert classification.adaptive_is_ahead({"w5a": curves}, classification.ADAPTIVE).holds is verdict


@pytest.mark.parametrize(("rate", "verdict"), [(0.1, True), (0.001, False)])
def test_who_is_ahead_per_bit(rate: float, verdict: bool):
    curves = {classification.GD: trace(rate=0.2, bits=6400), classification.ADAPTIVE: trace(rate=rate)}
    assert classification.gd_in_bits({"w5a": curves}, classification.ADAPTIVE).holds is verdict


@pytest.mark.parametrize(
    ("rates", "verdicts"),
    [((0.1, 0.08, 0.01), (True, True)), ((0.1, 0.02, 0.01), (False, False)), ((0.1, 0.1, 0.08), (True, False))],
)
def test_figure_1_similar_and_much_faster(rates, verdicts):
    names = (figure_1.TOPK, figure_1.PERMK, figure_1.RANDK)
    curves = {name: trace(name, rate=rate) for name, rate in zip(names, rates, strict=True)}
    assert (figure_1.similar(curves, "").holds, figure_1.much_faster(curves, "").holds) == verdicts


def pattern(c: int, d: int = 3) -> Record:
    return Record({}, {"n": N, "d": d, "c": c, "r": d, "fill": 0.5})


@pytest.mark.parametrize(("c", "verdict"), [(N, True), (N - 1, False)])
def test_the_intercept_makes_c_n(c: int, verdict: bool):
    found = {name: pattern(c) for name in figure_5.PUBLISHED_D}
    assert figure_5.intercept_makes_c_n(found).holds is verdict
    assert figure_5.mostly_sparse(found).holds is not verdict
    assert figure_5.intercept_makes_c_n({}).holds is None


def test_table_1_complexities_are_the_papers_formulas():
    numbers = table_1.complexities(constants(c=25).facts)
    assert numbers[table_1.DGD] == 10
    assert numbers[table_1.OLD] == pytest.approx(1 + 10 * 8)
    assert numbers[table_1.NEW] == pytest.approx(1 + 10 * 0.5 * 5)
    assert numbers[table_1.SECOND] == pytest.approx(1 + 10 * 0.5 * min(0.5 * 10, 8))


def test_condition_ii_and_the_claims_about_it():
    inside, outside = constants(L_plus=10.0), constants(L_plus=11.0)  # sqrt(c/n) = 0.1, L = 1
    assert table_1.condition_ii(inside.facts)
    assert not table_1.condition_ii(outside.facts)
    everywhere = dict.fromkeys(table_1.INSTANCES, inside)
    nowhere = dict.fromkeys(table_1.INSTANCES, outside)
    assert table_1.paper_instances_satisfy_ii(everywhere).holds is True
    assert table_1.paper_instances_satisfy_ii(nowhere).holds is False
    assert table_1.new_is_better_under_ii(everywhere).holds is True
    assert table_1.new_is_better_under_ii(nowhere).holds is None


def test_the_page_says_that_condition_ii_can_only_be_an_equality_and_what_theorem_1_promises():
    inside = constants(L_plus=10.0)
    table = table_1.complexity_table({"c = 1": inside})
    rows = {str(row[0]): row for row in table.rows}
    assert rows["condition (ii)"][2].text == "holds, as an equality"
    assert rows["1/γ of Theorem 1"][2:] == [1 + 0.1 * 10 * 19, Badge("at none of these", "bad")]  # DGD: 10
    assert rows[table_1.NEW][3] == Badge("at none of these", "bad")
    assert "can only be an equality" in table_1.ONLY_EQUALITY


def test_the_old_theory_is_not_better_unless_its_constants_are_impossible():
    assert table_1.old_is_not_better(dict.fromkeys(table_1.INSTANCES, constants())).holds is True
    assert table_1.old_is_not_better(dict.fromkeys(table_1.INSTANCES, constants(L_tilde=0.5))).holds is False


def test_divergence_and_convergence_of_the_three_clients():
    curves = {table_1.TOP1: trace(rate=-0.2), table_1.EF14: trace(rate=0.01), table_1.EF21: trace(rate=0.1)}
    assert table_1.top1_diverges(curves).holds is True
    assert table_1.error_feedback_converges(curves).holds is True
    assert table_1.top1_diverges({table_1.TOP1: trace(rate=0.0)}).holds is False
    assert table_1.error_feedback_converges(curves | {table_1.EF21: trace(rate=0.01)}).holds is False
    assert table_1.error_feedback_converges(curves | {table_1.EF14: trace(rate=-0.1)}).holds is False


def steps(ef14: list[float], ef21: list[float]) -> dict:
    """Curves of both methods with every multiple, which fall at these rates."""
    grids = {"EF14": ef14, "EF21": ef21}
    multiples = ef21_step_tolerance.MULTIPLES
    return {name: {m: trace(rate=rate) for m, rate in zip(multiples, rates, strict=True)} for name, rates in grids.items()}


@pytest.mark.parametrize(
    ("ef14", "ef21", "verdicts"),
    [
        ([0.001, 0.01, 0.005, 0.001, 0.0], [0.001, 0.01, 0.1, 0.01, 0.0], [True, True, True]),
        ([0.010, 0.02, 0.005, 0.001, 0.0], [0.001, 0.01, 0.1, 0.01, 0.0], [False, True, True]),
        ([0.001, 0.01, 0.095, 0.001, 0.0], [0.001, 0.01, 0.1, 0.01, 0.0], [True, False, False]),
        ([0.001, 0.01, 0.070, 0.001, 0.0], [0.001, 0.01, 0.1, 0.01, 0.0], [True, True, False]),  # the same best step
    ],
)
def test_ef21_tolerates_larger_steps(ef14, ef21, verdicts):
    checkers = (ef21_step_tolerance.alike, ef21_step_tolerance.further, ef21_step_tolerance.larger)
    assert [check("a9a", steps(ef14, ef21)).holds for check in checkers] == verdicts
    assert ef21_step_tolerance.alike("a9a", {"EF14": {}, "EF21": {}}).holds is None


@pytest.mark.parametrize(("diana", "holds"), [(0.05, True), (0.15, False)])
def test_marina_against_diana(diana, holds):
    rates = {"MARINA": 0.1, "DIANA": diana}
    curves = {label: trace(label, rate=rates[label.partition(",")[0]]) for label in marina_against_diana.STYLE}
    tuned = {
        f"{name}, K = 5, {m}×": trace(f"{name}, K = 5, {m}×", rate=rates[name]) for name in rates for m in (8, 64, 512, 4096)
    }
    for axis in ("rounds", "bits"):
        assert marina_against_diana.marina_is_ahead("a9a", curves, axis).holds is holds
    assert marina_against_diana.ahead_with_the_best_step("a9a", curves | tuned).holds is holds
    assert marina_against_diana.ahead_with_the_best_step("a9a", curves).holds is None


def test_a_step_that_leads_where_the_loss_is_flat_is_not_the_best():
    """The gradient is the smallest there, and the loss is higher than at the start."""
    labels = [f"{name}, K = 5" + f", {m}×" * (m > 1) for name in ("MARINA", "DIANA") for m in marina_against_diana.MULTIPLES]
    curves = {label: trace(label, rate=0.1 if label.startswith("MARINA") else 0.2) for label in labels}
    far = curves["MARINA, K = 5, 4096×"].record
    columns = {**far.columns, "f": 2.0 - far.columns["f"], "grad_norm2": 1e-9 * far.columns["grad_norm2"]}
    curves["MARINA, K = 5, 4096×"] = Trace("MARINA, K = 5, 4096×", Record(columns, far.facts))
    claim = marina_against_diana.ahead_with_the_best_step("a9a", curves)
    assert claim.holds is False
    assert "“MARINA, K = 5” needs" in claim.figures


@pytest.mark.parametrize(("gains", "verdicts"), [((4, 3, 2, 1), [True, True]), ((4, 1, 2, 3), [False, False])])
def test_perm_k_gains_where_clients_are_alike(gains, verdicts):
    pairs = {
        noise: {perm_k_quadratics.PERMK: trace(rate=0.02 * gain), perm_k_quadratics.RANDK: trace(rate=0.02)}
        for noise, gain in zip(perm_k_quadratics.NOISES, gains, strict=True)
    }
    claims = [perm_k_quadratics.faster_where_alike(pairs), perm_k_quadratics.gain_falls(pairs)]
    assert holds(claims) == verdicts
