"""Armijo's rule: f never rises at accepted points, nothing is returned that was refused, and what makes no sense is refused
before round 0.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from descending import CRAWLS, DIRECTIONS, FEW, descends, few_bits, full_precision, judged, rounds_to, watched
from hostile import hostile

import errorfeedback as ef
from errorfeedback.probes.losses import Losses
from errorfeedback.stepsizes import armijo
from errorfeedback.stepsizes.base import Move, Telemetry, Verdict

PROBLEMS = 240
"""`python tests/descending.py --count 1000` judges more."""
BATCH = 20


@pytest.mark.parametrize("first", range(0, PROBLEMS, BATCH))
def test_hostile_problems_never_rise_and_never_end_above_their_start(first):
    """Every third with a penalty on the server."""
    for seed in range(first, first + BATCH):
        problem, _, x0, _ = hostile(seed)
        prox = ef.ElasticNet(l2=10.0 ** -(seed % 5)) if seed % 3 == 0 else None
        direction = list(DIRECTIONS.values())[seed % 4]
        result, account = few_bits(problem, direction, 40, x0=x0, prox=prox)
        assert descends(account), seed
        assert np.isfinite(result.x).all(), seed
        penalty = ef.ElasticNet() if prox is None else prox
        last, first_loss = (problem.value(x) + penalty.value(problem.restrict(x)) for x in (result.x, x0))
        assert last <= first_loss * (1 + armijo.LEVEL), seed
        accepted = [loss for good, loss, _ in account if good]
        assert last == pytest.approx(accepted[-1], rel=1e-9), seed  # what is returned was accepted


@pytest.mark.parametrize("first", range(0, PROBLEMS // 2, BATCH))
def test_hostile_problems_with_kinks_never_rise_and_end_with_exact_zeros(first):
    ended = 0
    for seed in range(first, first + BATCH):
        problem, _, x0, _ = hostile(seed)
        steepest = np.abs(problem.gradient(np.zeros(problem.width))).max()
        prox = ef.ElasticNet(l1=10.0 ** -(1 + seed % 3) * steepest, l2=0.0 if seed % 2 else 1e-3)
        direction = list(DIRECTIONS.values())[seed % 4]
        result, account = few_bits(problem, direction, 40, x0=x0, prox=prox, downlink=ef.FittedStep(zeros=True))
        assert descends(account), seed
        assert np.isfinite(result.x).all(), seed
        last, first_loss = (problem.value(x) + prox.value(problem.restrict(x)) for x in (result.x, x0))
        assert last <= first_loss * (1 + armijo.LEVEL), seed
        ended += int((result.x == 0).any())
    assert ended >= BATCH // 4


def test_armijos_condition_around_kinks_is_that_of_the_promise(monkeypatch):
    """<g, s> + R(x + s) - R(x) of what everybody really took, whatever the downlink made of it."""
    seen, accepts = [], ef.Armijo.accepts

    def noted(rule, state, telemetry):
        good = accepts(rule, state, telemetry)
        if telemetry.move is not None:
            seen.append((good, telemetry.loss - state.loss - 1e-4 * telemetry.move.slope, telemetry.move.slope))
        return good

    monkeypatch.setattr(ef.Armijo, "accepts", noted)
    for seed in range(10):
        few_bits(hostile(seed)[0], ef.LBFGS(), 30, x0=hostile(seed)[2], prox=ef.ElasticNet(l1=1e-2))
    assert sum(slope < 0 for _, _, slope in seen) > 0.95 * len(seen) > 100
    assert all(good == (above <= 0) or abs(above) < 1e-9 for good, above, slope in seen if slope < 0)


@pytest.mark.parametrize("direction", [ef.LBFGS(), ef.Steepest()], ids=str)
def test_the_promise_of_a_step_is_that_of_its_definition(direction, monkeypatch):
    """With exact gradients: <grad f, s> + R(x + s) - R(x), from the points that were visited, an l2 part included."""
    made, prox, points, slopes = problem(), ef.ElasticNet(l1=0.05, l2=0.1), [], []
    accepts = ef.Armijo.accepts

    def noted(rule, state, telemetry):
        slopes.append(None if telemetry.move is None else telemetry.move.slope)
        return accepts(rule, state, telemetry)

    monkeypatch.setattr(ef.Armijo, "accepts", noted)
    gradients = type(made).gradients
    monkeypatch.setattr(
        type(made), "gradients", lambda own, at, *a, **k: (points.append(at.shared.copy()), gradients(own, at, *a, **k))[1]
    )
    ef.solve(made, ef.DGD(), ef.Armijo(), direction=direction, prox=prox, rounds=8, metrics=False)
    monkeypatch.setattr(type(made), "gradients", gradients)
    points = points[-9:]
    compared = 0
    for before, after, slope in zip(points, points[1:], slopes[1:], strict=False):
        s = after - before
        expected = made.gradient(before) @ s + prox.value(after) - prox.value(before)
        if isinstance(direction, ef.LBFGS):  # its model has the slope of the l2 part
            expected = made.gradient(before) @ s + 0.1 * before @ s + 0.05 * (np.abs(after) - np.abs(before)).sum()
        compared += slope is not None and slope == pytest.approx(expected, rel=1e-9)
    assert compared >= 5


def test_the_check_notices_a_rule_that_accepts_everything(monkeypatch):
    """Negative control."""
    monkeypatch.setattr(armijo, "LEVEL", 1e300)
    rises = [not descends_strictly(few_bits(hostile(s)[0], ef.LBFGS(), 40, x0=hostile(s)[2])[1]) for s in range(12)]
    assert any(rises)


def descends_strictly(account):
    losses = np.array([loss for accepted, loss, _ in account if accepted])
    return bool((losses[1:] <= losses[:-1] * (1 + 1e-12)).all())


@pytest.mark.parametrize("direction", [ef.Steepest(), ef.LBFGS(), ef.Curvature(FEW, price=2.0)], ids=str)
def test_armijos_condition_holds_at_every_accepted_step(direction, monkeypatch):
    seen, accepts = [], ef.Armijo.accepts

    def noted(rule, state, telemetry):
        good = accepts(rule, state, telemetry)
        if telemetry.move is not None:
            seen.append((good, telemetry.loss, state.loss, telemetry.move.slope))
        return good

    monkeypatch.setattr(ef.Armijo, "accepts", noted)
    for seed in range(10):
        few_bits(hostile(seed)[0], direction, 30, x0=hostile(seed)[2])
    falls = 0
    for good, loss, before, slope in seen:
        enough = loss <= before + 1e-4 * slope
        falls += good and slope < 0
        assert good == enough or abs(loss - before - 1e-4 * slope) <= 32 * np.finfo(float).eps * abs(before) or slope > 0
    assert falls > 100


@pytest.mark.parametrize("slope", [-1.0, -1e-3])
def test_the_share_is_one_in_ten_thousand(slope):
    """By hand: just enough, and just not."""
    state = armijo.LineSearch(0.0, loss=1.0, gamma=1.0)
    move = Move(1.0, slope, 1.0, 0.0, slope)
    for share, good in ((1.01e-4, True), (0.99e-4, False), (0.0, False)):
        assert ef.Armijo().accepts(state, Telemetry({Losses: 1.0 + share * slope}, move)) is good
    assert ef.Armijo().accepts(state, Telemetry({Losses: 5.0})) is True  # nobody has moved
    for loss in (np.nan, np.inf):
        assert ef.Armijo().accepts(state, Telemetry({Losses: loss}, move)) is False
    uphill = Move(1.0, 1.0, 1.0, 0.0, 1.0)
    assert ef.Armijo().accepts(state, Telemetry({Losses: 1.0 + 1e-6}, uphill)) is False


def test_a_first_step_is_a_quarter_of_polyaks():
    problem = ef.synthetic(n=10, d=20, m=3, c=2)
    start = ef.solve(problem, ef.DGD(), ef.Armijo(), rounds=0, f_star=0.0)
    f, g = start.history["f"][0], problem.gradient(np.zeros(20))
    assert start.history["gamma"][0] == pytest.approx(0.25 * (f - problem.lower_bound) / (g @ g))
    assert ef.solve(problem, ef.DGD(), ef.Armijo(guess=0.7), rounds=0).history["gamma"][0] == 0.7


def test_refused_steps_are_at_most_half_as_long_and_all_stand_after_the_third():
    problem, norms = ef.synthetic(n=10, d=20, m=3, c=2), []

    class Noted(ef.Armijo):
        def next(self, state, theory, method, telemetry):
            gamma, after = super().next(state, theory, method, telemetry)
            norms.append((after.verdict, None if telemetry.move is None else telemetry.move.norm2**0.5))
            return gamma, after

    ef.solve(problem, ef.DGD(), Noted(guess=1e9), rounds=40)
    verdicts = [verdict for verdict, _ in norms]
    again = [Verdict.KEEP, Verdict.RETRY, Verdict.RETRY, Verdict.RESTORE]
    assert verdicts[:12] == again * 3
    for k, (verdict, _) in enumerate(norms[:-1]):
        if verdict is Verdict.RETRY:
            assert norms[k + 1][1] <= 0.5 * norms[k][1] * (1 + 1e-12)
        if verdict is Verdict.RESTORE:
            assert norms[k + 1] == (Verdict.KEEP, None)
    assert norms[5][1] <= norms[3][1] / 4 * (1 + 1e-12) * 2
    assert verdicts[-5:] != again


def test_a_run_that_ends_at_a_refused_point_returns_the_last_accepted_one():
    for seed in range(30):
        problem, _, x0, _ = hostile(seed)
        for rounds in (1, 2, 3, 5, 8):
            result, account = few_bits(problem, ef.LBFGS(), rounds, x0=x0)
            if not account[-1][0]:
                best = [loss for accepted, loss, _ in account if accepted][-1]
                assert result.returned == "the last point that was accepted"
                assert problem.value(result.x) == pytest.approx(best, rel=1e-12)
                return
    raise AssertionError("no run ended so")


@pytest.mark.parametrize("name", DIRECTIONS)
def test_few_bits_take_about_the_rounds_of_full_precision(name):
    """Where features are of like size, which is what scaling is for."""
    for seed in range(4):
        problem = ef.scaled(ef.synthetic(n=20, d=40, m=5, c=5, seed=seed))
        _, exact = full_precision(problem, 60)
        _, account = few_bits(problem, DIRECTIONS[name], 190)
        least = min(loss for _, loss, _ in exact)
        for gap in (1e-2, 1e-3, 1e-5):
            target = least + gap * (exact[0][1] - least)
            assert rounds_to(account, target) <= CRAWLS * rounds_to(exact, target)


def test_few_hostile_problems_crawl_to_a_gap_of_a_thousandth():
    """Of the first 36 at most 3; with 4 bits throughout there are more."""
    fitted, coarse = (
        [seed for seed in range(36) if "crawls to 0.001" in judged(seed, "LBFGS", up=up)[0]]
        for up in (ef.FittedAnswer(), ef.PowersOfTwo(4))
    )
    assert len(fitted) <= 3 < len(coarse)


@pytest.mark.parametrize("seed", [49, 80, 86, 168, 180, 206])
def test_steps_that_no_bits_can_tell_are_not_tried(seed):
    """Least squares of fewer rows than features, with Hessians in every round: along valleys that hardly curve, steps would
    be told with errors across that cost more than they gain, and be refused round after round."""
    wrong, ratios = judged(seed, "link")
    assert wrong == []
    assert max(ratios) <= 2.0


def problem():
    return ef.synthetic(n=6, d=12, m=3, c=2)


@pytest.mark.parametrize("memory", [0, -1, 2.5, True, None, "3"])
def test_a_memory_of_no_pairs_is_refused(memory):
    for make in (lambda: ef.LBFGS(memory), lambda: ef.Curvature(memory=memory)):
        with pytest.raises(ValueError, match="it must be a whole number of pairs of at least 1"):
            make()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"price": -1.0}, "price = -1.0; what Hessians cost in rounds is at least 0"),
        ({"price": np.nan}, "price = nan"),
        ({"tolerance": 0.0}, "tolerance = 0.0; it is a share of all progress, between 0 and 1"),
        ({"tolerance": 1.0}, "tolerance = 1.0"),
    ],
)
def test_prices_that_make_no_sense_are_refused(options, words):
    with pytest.raises(ValueError, match=words):
        ef.Curvature(**options)


@pytest.mark.parametrize("guess", [0.0, -1.0, inf, np.nan])
def test_a_first_step_that_is_none_is_refused(guess):
    with pytest.raises(ValueError, match="a step size must be finite and positive"):
        ef.Armijo(guess=guess)


@pytest.mark.parametrize("direction", [ef.HeavyBall(0.5), ef.Diagonal(), ef.FedNL(ef.TopK(2))], ids=str)
def test_directions_that_know_nothing_of_kinks_are_refused(direction):
    with pytest.raises(ValueError, match=r"adds the gradient of the penalty, and l1 has none at 0; use ef.LBFGS\(\)"):
        ef.solve(problem(), ef.DGD(), ef.Armijo(), direction=direction, prox=ef.ElasticNet(l1=0.1), rounds=1)


@pytest.mark.parametrize("direction", [ef.LBFGS(), ef.Curvature()], ids=str)
def test_what_does_not_go_with_a_quasi_newton_direction_is_refused(direction):
    for rule in (ef.RareFeatures(), ef.Automatic()):
        with pytest.raises(ValueError, match="is a rule for steps along the estimate, and says nothing about"):
            ef.solve(problem(), ef.EF21(ef.TopK(1)), rule, direction=direction, rounds=1)


@pytest.mark.parametrize("method", [ef.MARINA(ef.RandK(1)), ef.DCGD(ef.RandK(1)), ef.EF14(ef.TopK(1))], ids=str)
def test_methods_whose_estimates_do_not_settle_are_refused(method):
    with pytest.raises(ValueError, match="Armijo is a rule for EF21 and DGD, and has no theorem for"):
        ef.solve(problem(), method, ef.Armijo(), rounds=1)


def test_l1_along_the_estimate_is_allowed_and_falls():
    _, account = watched(problem(), ef.EF21(FEW), rounds=60, prox=ef.ElasticNet(l1=0.05))
    assert descends(account)
    assert account[-1][1] < account[0][1]


@pytest.mark.parametrize(("rise", "share"), [(0.0, 0.5), (999.0, 0.5), (1001.0, 0.1), (np.inf, 0.1), (np.nan, 0.1)])
def test_a_step_that_led_far_off_is_cut_to_a_tenth(rise, share):
    """Promised was a fall of 1. And a direction that starts afresh where everybody stands goes no farther, nor does the next
    step by more than four times what was accepted, until it is shorter by itself."""
    rule, move = ef.Armijo(), Move(norm2=4.0, predicted=-1.0, gamma=1.0, known=0.0, slope=-1.0)
    state = armijo.LineSearch(0.0, loss=10.0, gamma=1.0)
    refused = Telemetry({Losses: 10.0 + rise}, move, direction2=4.0, accepted=False, descent=1.0, length=1.0)
    gamma, state = rule.next(state, None, None, refused)
    assert gamma == share
    for length in (2.0 * share, 2.0 * share**2):
        again = replace(refused, move=replace(move, norm2=length**2))
        _, state = rule.next(state, None, None, again)
    assert state.verdict is Verdict.RESTORE
    standing = Telemetry({Losses: 10.0}, None, direction2=4.0, descent=1.0, length=1.0)
    gamma, state = rule.next(state, None, None, standing)
    assert gamma == pytest.approx(share**3)
    lengths = []
    for length in (2 * gamma, 0.91 * 8 * gamma, 0.89 * 4 * 0.91 * 8 * gamma):
        accepted = Telemetry({Losses: 9.0}, replace(move, norm2=length**2), direction2=1e6, descent=1.0, length=1.0)
        _, state = rule.next(state, None, None, accepted)
        lengths.append(1e3 * state.gamma)
    assert lengths == pytest.approx([4 * 2 * gamma, 4 * 0.91 * 8 * gamma, 1e3])


def test_a_step_of_no_length_narrows_nothing():
    """A step that was rounded to nothing, and a loss that others raised."""
    rule, move = ef.Armijo(), Move(norm2=0.0, predicted=-1.0, gamma=1.0, known=0.0, slope=-1.0)
    state = armijo.LineSearch(0.0, loss=10.0, gamma=1.0)
    _, state = rule.next(
        state, None, None, Telemetry({Losses: 11.0}, move, direction2=4.0, accepted=False, descent=1.0, length=1.0)
    )
    assert state.radius == np.inf
    for radius in (np.inf, 1e-3):
        state = replace(state, radius=radius, refused=False)
        _, state = rule.next(state, None, None, Telemetry({Losses: 9.0}, move, direction2=4.0, descent=1.0, length=1.0))
        assert state.radius == radius


def test_directions_without_a_length_of_their_own_are_held_too():
    """Twice the last step size would be 40 times as long as the last accepted step."""
    rule, move = ef.Armijo(), Move(norm2=1.0, predicted=-1.0, gamma=1.0, known=0.0, slope=-1.0)
    state = armijo.LineSearch(0.0, loss=10.0, gamma=1.0, refused=True)
    gamma, _ = rule.next(state, None, None, Telemetry({Losses: 9.0}, move, direction2=400.0, descent=1.0))
    assert gamma == pytest.approx(4.0 / 20.0)


def test_what_clients_tell_that_were_away_is_no_rise():
    """The loss at the kept point counts as that much higher; where nothing compares, a step is refused and cut."""
    rule, move = ef.Armijo(), Move(norm2=4.0, predicted=-1.0, gamma=1.0, known=0.0, slope=-1.0)
    state = armijo.LineSearch(0.0, loss=1.0, gamma=1.0)
    for loss, good in ((1.5 - 1.01e-4, True), (1.5 - 0.99e-4, False)):
        assert rule.accepts(state, Telemetry({Losses: loss}, move, surprise=0.5)) is good
    unknown = Telemetry({Losses: 0.0}, move, direction2=4.0, descent=1.0, length=1.0, surprise=-np.inf)
    unknown.accepted = rule.accepts(state, unknown)
    assert unknown.accepted is False
    assert rule.next(state, None, None, unknown)[0] == 0.1
