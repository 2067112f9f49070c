"""Every stopping rule stops for its own reason, and says so."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.runtime import stopping
from errorfeedback.runtime.stopping import Budget, GradientMapping, Progress, RelativeDecrease
from errorfeedback.runtime.validation import Validation
from errorfeedback.storage.packing import pack, unpack
from errorfeedback.wire.truncated import truncated


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


def followed(rule, held_out, training):
    """The rounds at which a rule would stop a run with these losses, and its state at the end."""
    state, stops = rule.start(), []
    for t, (losses, loss) in enumerate(zip(held_out, training, strict=True)):
        reason, state = Validation(lambda x, here=losses: here, rule.every, rule.patience, rule.flat).next(
            state, Progress(t, 0.0, 0.0, loss, None, np.array([float(t)]))
        )
        stops += [t] if reason else []
    return stops, state


FALLING = 0.7 ** np.arange(400.0)
"""A training loss that has hardly any fall left after 15 rounds."""


def test_validation_waits_as_long_again_as_the_lowest_loss_took():
    for best in (3, 60, 150):
        losses = np.abs(np.arange(400.0) - best)
        stops, _ = followed(Validation(lambda x: 0.0), losses, FALLING)
        assert stops[0] == best + max(50, best)


def test_validation_never_stops_while_the_training_loss_falls():
    """A held-out loss that was lowest by chance in round 0, while training still has its whole way before it."""
    stops, _ = followed(Validation(lambda x: 0.0), np.arange(400.0), np.linspace(1, 0, 400))
    assert stops == []
    stops, _ = followed(Validation(lambda x: 0.0, flat=None), np.arange(400.0), np.linspace(1, 0, 400))
    assert stops[0] == 50  # negative control
    late = np.r_[np.linspace(1, 0.9, 150), np.full(250, 0.9)]  # flat from round 149, which is half of 298
    stops, _ = followed(Validation(lambda x: 0.0), np.arange(400.0), late)
    assert 290 <= stops[0] <= 298


def test_validation_returns_the_last_point_within_the_noise_of_the_best():
    rng = np.random.default_rng(0)
    rows = rng.exponential(size=50)
    noise = rng.standard_normal((30, 50))
    noise -= noise.mean(axis=1, keepdims=True)  # the mean differences are exactly these:
    means = np.r_[np.linspace(1, 0, 10), np.full(10, 0.5), np.full(10, 3.0)]
    state = followed(Validation(lambda x: 0.0), rows + 3 * noise + means[:, None], np.ones(30))[1]
    assert state.best.round == 9
    assert state.chosen.round == 19
    x, what = Validation(lambda x: 0.0).choice(state)
    assert x.tolist() == [19.0]
    assert f"within the noise of the lowest ({state.best.loss:.6g} at round 9)" in what
    clear = followed(Validation(lambda x: 0.0), rows + 0.1 * noise + means[:, None], np.ones(30))[1]
    assert clear.chosen.round == 9  # negative control: the same means, less noise


@pytest.mark.parametrize("rule", [ef.Automatic(), ef.Constant(0.01)])
def test_the_point_with_the_lowest_validation_loss_is_returned(problem, rule):
    """Not the last one, nor the one with the lowest training loss; also where something else stops the run."""
    goal = run(problem, rule=rule, rounds=10).x

    def away(x):
        return float(np.sum((problem.extend(x, np.zeros(problem.width)) - goal) ** 2))

    stopped = run(problem, Validation(away, every=5, patience=15, flat=None), rule=rule)
    assert stopped.stopped == "validation loss stopped falling at round 25"
    assert stopped.returned == "the point of round 10, with the lowest validation loss (0)"
    assert np.array_equal(stopped.x, goal)
    other = run(problem, Validation(away, every=5, patience=300, flat=None), rule=rule, rounds=40)
    assert other.stopped == "ran all 40 rounds"
    assert np.array_equal(other.x, goal)
    assert not np.array_equal(run(problem, rule=rule, rounds=40).x, goal)  # negative control
    curve = other.history["validation"]
    assert curve[10] == 0
    assert np.flatnonzero(np.isfinite(curve)).tolist() == list(range(0, 41, 5))


def test_a_validation_loss_that_is_never_a_number_chooses_nothing(problem):
    result = run(problem, Validation(lambda x: np.nan, every=5, flat=None), rule=ef.Constant(0.01), rounds=100)
    assert result.returned == "the last point"
    assert np.isfinite(result.x).all()


def test_a_rule_serves_many_runs_and_its_memory_goes_through_a_file(problem):
    """The configuration never changes; what a run remembers is a state, also after packing."""
    rules = [RelativeDecrease(1e-3), GradientMapping(1e-3), Budget(bytes=500), Validation(lambda x: x**2, flat=None)]
    first, again = (run(problem, *rules) for _ in range(2))
    assert (first.stopped, first.rounds) == (again.stopped, again.rounds)
    for rule in rules:
        states = {"straight": rule.start(), "packed": rule.start()}
        for t in range(100):
            seen = Progress(t, 100.0 * t, 0.0, 1 + 0.5**t, 0.01 / (t + 1), np.array([1.0, t - 20.0]))
            straight, states["straight"] = rule.next(states["straight"], seen)
            packed, states["packed"] = rule.next(unpack(*pack(states["packed"])), seen)
            assert packed == straight
            if straight:
                break
        assert straight
        assert str(rule.choice(states["packed"])) == str(rule.choice(states["straight"]))


def test_the_loss_must_be_known(problem):
    with pytest.raises(ValueError, match="Constant does not ask the clients for"):
        run(problem, RelativeDecrease(1e-3), rule=ef.Constant(0.1))
    with pytest.raises(ValueError, match=r"Constant does not ask the clients for; use ef.Automatic\(\), or flat=None"):
        run(problem, Validation(lambda x: 0.0), rule=ef.Constant(0.1))


def test_bad_parameters_are_refused():
    for make in (
        lambda: Budget(bytes=0),
        lambda: RelativeDecrease(-1.0),
        lambda: GradientMapping(np.nan),
        lambda: Validation(lambda x: 0.0, patience=0),
        lambda: Validation(lambda x: 0.0, flat=-0.1),
        lambda: RelativeDecrease(0.1, gap=0),
    ):
        with pytest.raises(ValueError, match="must be"):
            make()


@pytest.mark.parametrize("bits", [13, 20, 32, 63, 64])
def test_short_floats_are_within_half_a_unit_of_their_last_place_and_fit_their_bits(bits):
    rng = np.random.default_rng(0)
    v = rng.standard_normal(1000) * 10.0 ** rng.uniform(-300, 300, 1000)
    short = truncated(v, bits)
    assert np.all(np.abs(short - v) <= 2.0 ** (11 - bits) * np.abs(v))
    assert not np.any(short.view(np.uint64) & np.uint64(2 ** (64 - bits) - 1))
    special = truncated(np.array([0.0, np.inf, -np.inf, np.nan]), bits)
    assert special.tolist()[:3] == [0.0, np.inf, -np.inf]
    assert np.isnan(special[3])


def estimated(*rounds):
    """What `EstimatedGap(1e-3)` says after rounds with these (loss, gap, ||g||^2), where the loss began at 1."""
    rule = ef.EstimatedGap(1e-3, patience=4)
    state, said = rule.start(), []
    for t, (loss, gap, gradient2) in enumerate(rounds):
        gained = None if gap is None else 1.0 - loss
        seen = Progress(t, 0.0, 0.0, loss, None, None, gap=gap, gained=gained, gradient2=gradient2)
        reason, state = rule.next(state, seen)
        said.append(reason)
    return said


STEEP = (1.0, 1.0, 1.0)


def test_an_estimated_gap_stops_when_it_is_small_twice_in_a_row():
    small, large = 0.98e-3 * 0.5, 1.02e-3 * 0.5
    assert estimated(STEEP, (0.5, small, 0.0), (0.4999, large, 0.0), (0.4998, small, 0.0)) == [""] * 4
    *before, last = estimated(STEEP, (0.5, small, 0.0), (0.4999, small, 0.0))
    assert before == ["", ""]
    assert last == "an estimated 9.8e-04 of all progress is left at round 2"


def test_an_estimate_that_the_run_has_refuted_counts_as_many_times_as_it_was_too_low():
    """0.001 was said to be left, and the loss fell by 0.05: what is said next counts 50 times."""
    tolerated = 1e-3 * 0.55
    for gap, stops in ((0.98 * tolerated / 50, True), (1.02 * tolerated / 50, False)):
        said = estimated((0.5, 0.001, 1.0), (0.45, 1e-9, 0.0), (0.45, gap, 0.0))
        assert bool(said[-1]) is stops


def test_the_estimate_is_held_against_each_of_the_last_eight_accepted_points():
    losses, gaps = 1.0 - 0.1 * np.arange(10), 0.01 + 0.001 * np.arange(10)
    rule = ef.EstimatedGap(1e-3)
    state = rule.start()
    for t in range(10):
        seen = Progress(t, 0.0, 0.0, losses[t], None, None, gap=gaps[t], gained=1.0 - losses[t])
        before, state = state, rule.next(state, seen)[1]
        last = slice(max(t - 8, 0), t)
        times = ((losses[last] - losses[t]) / gaps[last]).max() if t else 1.0
        assert state.gap == pytest.approx(times * gaps[t], rel=1e-12)
        refused = rule.next(before, Progress(t, 0.0, 0.0, 5.0, None, None))[1]
        assert refused.past == before.past


def test_what_was_refuted_makes_no_other_estimate_small():
    """1e-9 was said to be left, and the loss fell by 0.4: a sixth of all progress is not small beside that."""
    rule = ef.EstimatedGap(1e-3)
    state = rule.next(rule.start(), Progress(0, 0.0, 0.0, 0.9, None, None, gap=1e-9, gained=0.1))[1]
    reason, state = rule.next(state, Progress(1, 0.0, 0.0, 0.5, None, None, gap=0.1, gained=0.5))
    assert (reason, state.times, state.much) == ("", 0, True)


def test_refuting_counts_losses_as_they_are_told_now():
    """The loss of 0.5 counts as 0.7 once the absent have told: 0.6 is a fall by 0.1, ten times what was left."""
    rule = ef.EstimatedGap(1e-3)
    state = rule.next(rule.start(), Progress(0, 0.0, 0.0, 0.5, None, None, gap=0.01, gained=0.5))[1]
    state = rule.next(state, Progress(1, 0.0, 0.0, 0.6, None, None, gap=0.01, gained=0.4, surprise=0.2))[1]
    assert state.gap == pytest.approx(0.1)


def left_at_the_end(seed, monkeypatch, refuted):
    """How many times the tolerance of all progress is left where a run ends that remembers three pairs: curvatures
    from 1e-4 to 1."""
    rng = np.random.default_rng(seed)
    columns, turned = (np.linalg.qr(rng.standard_normal((rows, 40)))[0] for rows in (200, 40))
    A = (columns * 10.0 ** np.linspace(-2, 0, 40)) @ turned.T
    b = A @ rng.standard_normal(40) + columns @ rng.standard_normal(40)
    few = {"direction": ef.LBFGS(3), "downlink": ef.FittedStep(), "stop": [ef.EstimatedGap(1e-4)]}
    monkeypatch.setattr(stopping, "refuted", refuted)
    method = ef.EF21(ef.FittedAnswer(), start="compressed")
    run = ef.solve(ef.least_squares(A, b, clients=5), method, ef.Armijo(), rounds=2000, **few)

    def loss(x):
        return np.mean((A @ x - b) ** 2)

    least = loss(np.linalg.lstsq(A, b, rcond=None)[0])
    return (loss(run.x) - least) / (loss(np.zeros(40)) - least) / 1e-4


def test_runs_in_valleys_end_nearer_to_where_the_tolerance_says(monkeypatch):
    rules = (stopping.refuted, lambda past, loss: 1.0)
    held, alone = (np.array([left_at_the_end(seed, monkeypatch, rule) for seed in range(6)]) for rule in rules)
    assert (held < alone).all()
    assert np.exp(np.log(held / alone).mean()) < 0.4


def test_an_estimated_gap_is_believed_where_the_gradient_has_fallen_too():
    """||g||^2 at 100 times the tolerance of its largest, two percent below and above."""
    for share, stops in ((0.098, True), (0.102, False)):
        assert bool(estimated(STEEP, (0.5, 1e-9, share), (0.5 - 1e-10, 1e-9, share))[-1]) is stops


def test_refused_points_say_nothing_and_a_loss_that_no_step_lowers_ends_the_run():
    assert estimated(STEEP, (0.5, 1e-9, 0.0), (0.9, None, 0.0), (0.5 - 1e-10, 1e-9, 0.0))[2:] == [
        "",
        "an estimated 2.0e-09 of all progress is left at round 3",
    ]
    said = estimated((1.0, 1e-9, 1.0), *[(1.0, None, 0.0)] * 4)
    assert said == ["", "", "", "", "no step lowers the loss any more, at round 4"]


def test_where_much_is_left_steps_have_three_times_as_long_to_be_shortened():
    for gap, rounds in ((0.98e-3 * 0.01, 4), (1.02e-3 * 0.0101, 12), (1.0, 12)):
        said = estimated((1.0, gap, 1.0), *[(1.0, None, 0.0)] * 12)
        assert said.index(f"no step lowers the loss any more, at round {rounds}") == rounds, gap


def test_what_was_not_known_of_clients_that_were_away_is_no_rise_and_thin_rounds_are_not_judged():
    """The best loss of 1 counts as 3 once the absent have told: 2 is lower. Rounds without a tenth of them count for
    nothing."""
    for rule in (ef.EstimatedGap(1e-3, patience=2), RelativeDecrease(1e-3, patience=2, gap=1)):
        state = rule.next(rule.start(), Progress(0, 0.0, 0.0, 1.0, None, None))[1]
        state = rule.next(state, Progress(1, 0.0, 0.0, 2.0, None, None, surprise=2.0))[1]
        assert (state.best, state.idle) == (2.0, 0)
    rule = ef.EstimatedGap(1e-3, patience=2)
    reasons, state = [], rule.start()
    for t, share in enumerate((1.0, 0.89, 0.89, 0.89, 0.9, 0.89, 1.0)):
        reason, state = rule.next(state, Progress(t, 0.0, 0.0, 1.0, None, None, share=share))
        reasons.append(reason)
    assert reasons[:6] == [""] * 6
    assert reasons[6] == "no step lowers the loss any more, at round 6"
