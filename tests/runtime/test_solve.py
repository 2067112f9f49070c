"""The loop: what is recorded, what is counted, what is refused."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest
from feature_list_code import coded
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.runtime.clock import Clock
from errorfeedback.storage.history import COLUMNS


@pytest.fixture(scope="module")
def problem():
    return pair(n=5, d=12)[0]


def run(problem, method=None, rule=None, **options):
    return ef.solve(problem, method or ef.EF21(ef.TopK(1)), rule or ef.RareFeatures(), **({"rounds": 20} | options))


def test_history_has_a_row_per_recorded_round_with_the_first_and_the_last(problem):
    assert run(problem, rounds=20, every=5).history["round"].tolist() == [0, 5, 10, 15, 20]
    assert run(problem, rounds=21, every=5).history["round"].tolist() == [0, 5, 10, 15, 20, 21]
    assert run(problem, rounds=0).history["round"].tolist() == [0]
    history = run(problem).history
    assert tuple(history) == COLUMNS
    assert {len(v) for v in history.values()} == {21}
    assert history.rows == 21


def test_history_turns_into_a_frame(problem):
    history = run(problem).history
    frame = history.to_pandas()
    assert list(frame.columns) == list(COLUMNS)
    assert frame["uplink_bits"].dtype == np.int64
    pd.testing.assert_frame_equal(frame, pd.DataFrame(history))


def test_recorded_metrics_are_what_they_say(problem):
    result = run(problem, rounds=30, x0=np.ones(12))
    t, h = result.theory, result.history
    assert h["f"][-1] == problem.value(result.x)
    g = problem.gradient(result.x)
    assert h["grad_norm2"][-1] == pytest.approx(g @ g, rel=1e-12)
    expected = h["f"] + h["gamma"] * t.c / (2 * t.theta * t.n) * h["G"]
    np.testing.assert_allclose(h["lyapunov"], expected, rtol=1e-14)
    first = problem.gradients_at(np.ones(12))
    assert h["G"][0] == pytest.approx(first @ first / 5, rel=1e-12)  # g_i^0 = 0
    assert np.all(h["c_t"] <= problem.support.c * (1 + 1e-12))  # Lemma 5


def test_f_star_shifts_the_lyapunov_function(problem):
    a, b = run(problem).history["lyapunov"], run(problem, f_star=0.25).history["lyapunov"]
    np.testing.assert_allclose(a - b, 0.25, rtol=1e-12)


def test_methods_without_gradient_estimates_have_no_G(problem):
    history = run(problem, ef.DGD(), ef.InverseL()).history
    assert np.isnan(history["G"]).all()
    assert np.array_equal(history["lyapunov"], history["f"])  # Psi = f - f* is what falls
    assert np.isnan(run(problem, ef.DGD(), ef.Constant(0.01)).history["lyapunov"]).all()


def test_zero_start_stands_still_in_the_first_round_and_sends_nothing_before(problem):
    result = run(problem, rounds=1, x0=np.ones(12))
    assert np.array_equal(result.x, np.ones(12))
    assert result.history["payload_bits"].tolist()[0] == 0
    assert result.history["downlink_bits"][1] == result.history["downlink_bits"][0], "everybody has the first x"


def test_every_bit_is_counted(problem):
    s = problem.support
    full = 64 * s.size
    down = full + 5 * (24 + 8)  # x on J_i, in frames
    owned = sum(24 + 8 + 8 * -(-len(coded(s.features(i).tolist(), 12)) // 8) for i in range(s.n))  # once
    index = [int(np.ceil(np.log2(size))) for size in s.sizes]
    top1 = sum(64 + bits if size > 1 else 64 for bits, size in zip(index, s.sizes, strict=True))
    head = 5 * (24 + 8)  # version and check, count
    padding = sum(-bits % 8 for bits, size in zip(index, s.sizes, strict=True) if size > 1)
    h = run(problem, rounds=3).history
    assert h["payload_bits"].tolist() == [0, top1, 2 * top1, 3 * top1]
    assert (h["uplink_bits"] - h["payload_bits"]).tolist() == [owned + t * (head + padding) for t in range(4)]
    assert h["downlink_bits"].tolist() == [0, 0, down, 2 * down]  # x^1 = x^0 = 0: nobody has to be told
    h = run(problem, ef.EF21(ef.TopK(1), start="gradient"), rounds=2).history
    assert h["payload_bits"].tolist() == [full, full + top1, full + 2 * top1]
    assert (h["uplink_bits"] - h["payload_bits"]).tolist() == [
        owned + head,
        owned + 2 * head + padding,
        owned + 3 * head + 2 * padding,
    ]
    assert h["downlink_bits"].tolist() == [0, down, 2 * down]
    h = run(problem, ef.DGD(), ef.InverseL(), rounds=2).history
    assert h["payload_bits"].tolist() == [full, 2 * full, 3 * full]
    assert (h["uplink_bits"] - h["payload_bits"]).tolist() == [owned + head, owned + 2 * head, owned + 3 * head]
    sent = 16 + 4 * s.sizes  # four bits each and a unit
    h = run(problem, ef.EF21(ef.PowersOfTwo(4), start="compressed"), rounds=2).history
    assert h["payload_bits"].tolist() == [t * sent.sum() for t in (1, 2, 3)]
    frames = head + int((-(-sent // 8) * 8).sum())
    assert h["uplink_bits"].tolist() == [owned + t * frames for t in (1, 2, 3)]
    h = run(problem, rule=ef.Adaptive(), rounds=2).history  # one telemetry number per client and round
    assert h["payload_bits"].tolist() == [5 * 64, top1 + 2 * 5 * 64, 2 * top1 + 3 * 5 * 64]
    assert (h["uplink_bits"] - h["payload_bits"]).tolist() == [
        owned + head,
        owned + 2 * head + padding,
        owned + 3 * head + 2 * padding,
    ]


def test_bits_as_the_authors_count():
    """32 bits per value, indices and the first upload free, gradient descent charged d per client and round."""
    problem = pair(n=5, d=12)[0]
    assert run(problem, rounds=2).history["authors_bits"].tolist() == [0, 5 * 32, 10 * 32]
    authors = run(problem, ef.EF21(ef.TopK(1), start="authors"), rounds=2).history
    assert authors["authors_bits"].tolist() == [0, 5 * 32, 10 * 32]
    assert authors["payload_bits"][0] == 64 * problem.support.size
    assert run(problem, ef.DGD(), ef.InverseL(), rounds=2).history["authors_bits"].tolist() == [0, 5 * 12 * 32, 10 * 12 * 32]


def test_metrics_can_be_switched_off(problem, monkeypatch):
    monkeypatch.setattr(type(problem), "values", lambda *_: pytest.fail("metrics were computed"))
    off = run(problem, metrics=False)
    assert np.isnan(off.history["f"]).all()
    assert off.history["uplink_bits"][-1] > 0
    monkeypatch.undo()
    assert np.array_equal(off.x, run(problem).x)


def test_the_clock_stops_while_metrics_are_computed(problem):
    result = run(problem, rounds=10, watch=lambda row: time.sleep(0.05))
    assert result.history["seconds"][-1] < 0.25
    assert np.all(np.diff(result.history["seconds"]) > 0)


def test_a_paused_clock_stands_still():
    clock = Clock()
    with clock.paused():
        time.sleep(0.05)
    assert clock.seconds < 0.04


def test_watch_sees_every_recorded_row(problem):
    rows = []
    result = run(problem, rounds=10, every=5, watch=rows.append)
    assert [row["f"] for row in rows] == result.history["f"].tolist()


def test_a_diverging_run_stops_and_says_so(problem):
    result = run(problem, ef.DGD(), ef.Constant(1e6), rounds=10_000, every=10, x0=np.ones(12))
    assert result.stopped.startswith("diverged: f is not finite at round")
    assert result.rounds == result.history["round"][-1] < 10_000
    assert run(problem).stopped == "ran all 20 rounds"


def test_x0_is_not_changed(problem):
    x0 = np.ones(12)
    run(problem, x0=x0)
    assert np.array_equal(x0, np.ones(12))


BAD = {
    "rounds = -1": {"rounds": -1},
    "rounds = 1.5": {"rounds": 1.5},
    "every = 0": {"every": 0},
    "seed = -1": {"seed": -1},
    r"x0 has shape \(3,\)": {"x0": np.ones(3)},
    r"x0\[0\] is not finite": {"x0": np.full(12, np.nan)},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_options_are_refused_before_any_work(problem, message):
    with pytest.raises(ValueError, match=message):
        run(problem, **BAD[message])


def test_verify_checks_theorem_1_along_a_run(problem):
    held = ef.verify(run(problem, rounds=200))
    assert held.holds
    assert held.complete
    assert held.mean_grad_norm2 <= held.bound
    assert "held over every round" in str(held)
    partial = ef.verify(run(problem, rounds=200, every=10))
    assert partial.holds
    assert not partial.complete


def test_verify_notices_a_step_that_is_too_large(problem):
    """Negative control: far above Theorem 1's gamma the Lyapunov function rises."""
    gamma = 200 * ef.RareFeatures().gamma(ef.analyse(problem, ef.TopK(1)))
    broken = ef.verify(run(problem, rule=ef.Constant(gamma), rounds=50, x0=np.ones(12)))
    assert not broken.holds
    assert broken.violated_at is not None


def test_verify_refuses_what_theorem_1_does_not_cover(problem):
    cases = {
        "is about EF21": run(problem, ef.DGD(), ef.InverseL()),
        "constant step size": run(problem, rule=ef.Adaptive()),
        "recorded no Lyapunov": run(problem, metrics=False),
    }
    for message, result in cases.items():
        with pytest.raises(ValueError, match=message):
            ef.verify(result)


def test_the_first_rounds_are_recorded_densely():
    problem = ef.synthetic(n=10, d=20, m=3, c=2)
    result = ef.solve(problem, ef.DGD(), ef.InverseL(), rounds=35, every=10, densely=12)
    assert result.history["round"].tolist() == [*range(12), 20, 30, 35]
    with pytest.raises(ValueError, match="densely = -1"):
        ef.solve(problem, ef.DGD(), ef.InverseL(), rounds=35, densely=-1)
