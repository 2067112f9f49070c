"""The automatic step: close to the best constant one, never lost, and every bit of it counted."""

from __future__ import annotations

import numpy as np
import pytest
from hostile import hostile
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.problems.scaling import scaled
from errorfeedback.stepsizes import automatic
from errorfeedback.stepsizes.base import Verdict


@pytest.fixture(scope="module")
def problem():
    return ef.synthetic(n=30, d=100, m=6, c=4)


def start_and_optimum(problem):
    x = np.linalg.lstsq(problem.A.toarray(), problem.target, rcond=None)[0]
    return problem.value(np.zeros(problem.d)), problem.value(x)


def rounds_to(problem, rule, target, rounds=1500, method=None):
    h = ef.solve(problem, method or ef.EF21(ef.TopK(1)), rule, rounds=rounds).history
    there = np.flatnonzero(h["f"] <= target)
    return int(h["round"][there[0]]) if len(there) else np.inf


@pytest.mark.parametrize("k", [1, 4, 1000])
def test_it_needs_about_the_rounds_of_the_best_constant_step(problem, k):
    first, best = start_and_optimum(problem)
    target, L = best + 1e-4 * (first - best), ef.analyse(problem).L
    method = ef.EF21(ef.TopK(k))
    grid = min(rounds_to(problem, ef.Constant(2.0**p / L), target, method=method) for p in range(-5, 4))
    assert rounds_to(problem, ef.Automatic(), target, method=method) <= 1.3 * grid + 5


def test_a_rule_that_does_not_look_at_the_slope_is_far_from_it(problem, monkeypatch):
    """Negative control: with a setpoint that no slope reaches, the step only shrinks."""
    first, best = start_and_optimum(problem)
    target = best + 1e-4 * (first - best)
    good = rounds_to(problem, ef.Automatic(), target)
    monkeypatch.setattr(automatic, "EAGER", 0.99)
    assert rounds_to(problem, ef.Automatic(setpoint=0.99), target) > 2 * good


@pytest.mark.parametrize("guess", [1e-2, 1e-1, 10.0, 1e2, 1e6])
def test_any_first_guess_will_do(problem, guess):
    L = ef.analyse(problem).L
    first, best = start_and_optimum(problem)
    result = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Automatic(guess=guess / L), rounds=1500, every=1500)
    assert problem.value(result.x) <= best + 1e-4 * (first - best)


def test_exact_coordinates_and_gradient_descent(problem):
    first, best = start_and_optimum(problem)
    for method in (ef.EF21(ef.ExactOnCommon((0, 1), 1)), ef.DGD(), ef.EF21(ef.TopK(2), start="gradient")):
        result = ef.solve(problem, method, ef.Automatic(), rounds=1500, every=1500)
        assert problem.value(result.x) <= best + 1e-4 * (first - best)


@pytest.mark.parametrize("seed", range(40))
def test_hostile_problems_never_end_above_their_start(seed):
    problem, method, x0, guess = hostile(seed)
    result = ef.solve(problem, method, ef.Automatic(guess=guess), rounds=150, every=150, x0=x0)
    assert np.isfinite(result.x).all()
    assert problem.value(result.x) <= problem.value(x0)


def test_a_step_that_is_far_too_long_is_taken_back(problem):
    """The loss is told, the run goes back to the start, stands still for a round and comes out below it."""
    seen = []

    class Watched(ef.Automatic):
        def next(self, state, theory, method, telemetry):
            gamma, after = super().next(state, theory, method, telemetry)
            seen.append((after.verdict, telemetry.loss, telemetry.move))
            return gamma, after

    ef.solve(problem, ef.EF21(ef.TopK(1)), Watched(guess=1e5), rounds=40)
    lost = next(k for k, (verdict, *_) in enumerate(seen) if verdict is Verdict.RESTORE)
    kept = max(k for k in range(lost) if seen[k][0] is Verdict.KEEP)
    assert seen[lost + 1][0] is Verdict.KEEP
    assert seen[lost + 1][1] == pytest.approx(seen[kept][1], rel=1e-12)
    assert seen[lost + 1][2] is None


def test_without_the_way_back_the_same_step_is_lost(problem, monkeypatch):
    """Negative control for the guard."""
    monkeypatch.setattr(automatic, "MARGIN", 1e300)
    monkeypatch.setattr(automatic, "ROUNDING", 1000)
    h = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Automatic(guess=1e5), rounds=10).history
    assert h["f"][-1] > 1e6 * h["f"][0]


@pytest.mark.parametrize("rounds", [31, 133])
@pytest.mark.parametrize("guess", [None, 0.01])
def test_every_bit_of_the_telemetry_is_counted(problem, rounds, guess):
    n = problem.n
    plain = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Constant(0.01), rounds=rounds).history["payload_bits"][-1]
    told = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Automatic(guess=guess), rounds=rounds).history["payload_bits"][-1]
    curvature = 14 if guess is None else 0
    losses = 7 * 32 + sum(40 if t <= 100 else 64 for t in range(10, rounds + 1, 10))
    closing = 2 * 64
    assert told - plain == n * (curvature + 14 * (rounds + 1) + losses + closing)


def test_the_closing_exchange_is_in_the_last_row(problem):
    """The last row of a run is that row of a longer run and two exact losses per client, where the end must choose."""
    long = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Automatic(), rounds=60).history
    for rounds in (0, 31, 40):
        result = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Automatic(), rounds=rounds)
        torn = rounds == 31  # the losses of rounds 0 and 40 were told, and they were the lowest
        head = 3 + 1  # version, check, count: each loss is a frame of its own
        for column, each in (("payload_bits", 64), ("uplink_bits", 64 + 8 * head)):
            assert result.history[column][-1] - long[column][rounds] == 2 * each * problem.n * torn
        assert result.returned == "the last point"


def test_the_first_guess_needs_one_number_per_client(problem):
    """L <= max_j (1/n) sum_{i in I_j} L_i, and 14 bits of every L_i lose at most 2^-2 of it."""
    theory = ef.analyse(problem)
    exact = theory.support.max_over_features(theory.L_i) / problem.n
    assert theory.L <= exact <= automatic.bound_of_clients(theory) <= (1 + 2.0**-2) * exact
    assert exact < theory.L_i.mean()  # rare features: sharper than the mean of the L_i


@pytest.mark.parametrize("guess", [None, 1e4])
def test_any_number_of_shards_and_threads_gives_the_same_bits(guess):
    problem = scaled(pair("logistic", n=7, d=15, fill=0.4)[0])
    prox = ef.ElasticNet(l1=1e-3, l2=1e-3)
    runs = [
        ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Automatic(guess=guess), rounds=80, engine=engine, prox=prox)
        for engine in (ef.Local(1), ef.Local(3), ef.Local(7), ef.Threads(2), ef.Threads(3))
    ]
    for other in runs[1:]:
        assert np.array_equal(runs[0].x, other.x)
        assert np.array_equal(runs[0].history["f"], other.history["f"])
        assert np.array_equal(runs[0].history["gamma"], other.history["gamma"])


def test_bad_parameters_are_refused():
    for bad in ({"guess": -1.0}, {"guess": np.inf}, {"setpoint": 1.0}, {"gain": 0.0}):
        with pytest.raises(ValueError, match="must"):
            ef.Automatic(**bad)
    with pytest.raises(ValueError, match="rule for EF21 and DGD"):
        ef.Automatic().check(ef.MARINA(ef.RandK(1)), ef.Steepest())
