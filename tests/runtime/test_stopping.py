"""Every stopping rule stops for its own reason, and says so."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.compressors.short import shortened
from errorfeedback.runtime.stopping import Budget, GradientMapping, RelativeDecrease, Validation


@pytest.fixture(scope="module")
def problem():
    return ef.synthetic(n=10, d=20, m=3, c=2)


def run(problem, *stop, rule=None, rounds=5000):
    return ef.solve(problem, ef.EF21(ef.TopK(1)), rule or ef.Automatic(), rounds=rounds, stop=stop)


def test_rounds(problem):
    assert run(problem, rounds=7).stopped == "ran all 7 rounds"


def test_relative_decrease(problem):
    result = run(problem, RelativeDecrease(1e-3))
    assert result.stopped == f"loss fell by less than 0.001 of itself at round {result.rounds}"
    assert 10 < result.rounds < run(problem, RelativeDecrease(1e-6)).rounds < 5000


def test_gradient_mapping(problem):
    result = run(problem, GradientMapping(1e-3))
    assert result.stopped.startswith("gradient mapping")
    assert np.linalg.norm(problem.gradient(result.x)) < 0.05
    assert result.history["round"][-1] == result.rounds


@pytest.mark.parametrize("rule", [ef.Automatic(), ef.Constant(0.01)])
def test_budget_of_bytes(problem, rule):
    result = run(problem, Budget(bytes=500), rule=rule)
    per_round = result.history["uplink_bits"][-2:] / problem.n / 8
    closing = 2 * 12 if isinstance(rule, ef.Automatic) else 0  # the loss at the end and at the best point
    assert "500 bytes" in result.stopped
    assert per_round[0] < 500 <= per_round[1]
    assert per_round[1] <= 500 + 30 + closing


def test_budget_of_seconds(problem):
    assert "seconds spent" in run(problem, Budget(seconds=0.05), rule=ef.Constant(1e-9), rounds=10**9).stopped


def test_validation_loss(problem):
    losses = iter([3.0, 2.0, 2.5, 2.5, 2.5, 2.5])
    result = run(problem, Validation(lambda x: next(losses), every=5, patience=2))
    assert result.stopped == "validation loss stopped falling at round 15"


@pytest.mark.parametrize("rule", [ef.Automatic(), ef.Constant(0.01)])
def test_the_point_with_the_lowest_validation_loss_is_returned(problem, rule):
    """Not the last one, nor the one with the lowest training loss; also where something else stops the run."""
    goal = run(problem, rule=rule, rounds=10).x

    def away(x):
        return float(np.sum((problem.extend(x, np.zeros(problem.width)) - goal) ** 2))

    stopped = run(problem, Validation(away, every=5, patience=3), rule=rule)
    assert stopped.stopped == "validation loss stopped falling at round 25"
    assert stopped.returned == "the point of round 10, with the lowest validation loss (0)"
    assert np.array_equal(stopped.x, goal)
    other = run(problem, Validation(away, every=5, patience=30), rule=rule, rounds=40)
    assert other.stopped == "ran all 40 rounds"
    assert np.array_equal(other.x, goal)
    assert not np.array_equal(run(problem, rule=rule, rounds=40).x, goal)  # negative control


def test_a_validation_loss_that_is_never_a_number_chooses_nothing(problem):
    result = run(problem, Validation(lambda x: np.nan, every=5, patience=2), rule=ef.Constant(0.01))
    assert result.returned == "the last point"
    assert np.isfinite(result.x).all()


def test_the_loss_must_be_known(problem):
    with pytest.raises(ValueError, match="Constant does not ask the clients for"):
        run(problem, RelativeDecrease(1e-3), rule=ef.Constant(0.1))


def test_bad_parameters_are_refused():
    for make in (
        lambda: Budget(bytes=0),
        lambda: RelativeDecrease(-1.0),
        lambda: GradientMapping(np.nan),
        lambda: Validation(lambda x: 0.0, patience=0),
    ):
        with pytest.raises(ValueError, match="must be"):
            make()


@pytest.mark.parametrize("bits", [13, 20, 32, 63, 64])
def test_short_floats_are_within_half_a_unit_of_their_last_place_and_fit_their_bits(bits):
    rng = np.random.default_rng(0)
    v = rng.standard_normal(1000) * 10.0 ** rng.uniform(-300, 300, 1000)
    short = shortened(v, bits)
    assert np.all(np.abs(short - v) <= 2.0 ** (11 - bits) * np.abs(v))
    assert not np.any(short.view(np.uint64) & np.uint64(2 ** (64 - bits) - 1))
    special = shortened(np.array([0.0, np.inf, -np.inf, np.nan]), bits)
    assert special.tolist()[:3] == [0.0, np.inf, -np.inf]
    assert np.isnan(special[3])
