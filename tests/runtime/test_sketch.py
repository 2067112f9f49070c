"""c^t without the full gradient: the sketch of the sum, its error and its bits."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.core import Round
from errorfeedback.probes.sketches import estimate, sketches
from errorfeedback.problems.base import Problem


@pytest.fixture(scope="module")
def problem() -> Problem:
    return ef.synthetic(n=12, d=30, m=3, c=4)


def estimates(problem: Problem, size: int, rounds: int) -> tuple[np.ndarray, float]:
    u = np.random.default_rng(1).normal(size=problem.support.size)
    truth = float(np.sum((problem.support.scatter(u) / problem.n) ** 2))
    found = [estimate(sketches(u, problem.support, size, Round(t, 7)).sum(axis=0), problem.n) / truth for t in range(rounds)]
    return np.array(found), truth


@pytest.mark.parametrize("size", [1, 8, 70])
def test_the_estimate_is_unbiased_with_deviation_at_most_sqrt_2_over_s(problem: Problem, size: int) -> None:
    found, _ = estimates(problem, size, 3000)
    assert found.mean() == pytest.approx(1.0, abs=4 * np.sqrt(2 / size / 3000))
    assert 0.5 * np.sqrt(2 / size) < found.std() < 1.1 * np.sqrt(2 / size)


def test_signs_are_the_same_for_all_clients_and_new_in_every_round(problem: Problem) -> None:
    ones = np.ones(problem.support.size)
    whole = sketches(ones, problem.support, 5, Round(3, 7))
    parts = [sketches(ones[: problem.support.indptr[5]], problem.support.shard(0, 5), 5, Round(3, 7))]
    parts.append(sketches(ones[problem.support.indptr[5] :], problem.support.shard(5, 12), 5, Round(3, 7)))
    assert np.array_equal(whole, np.vstack(parts))
    assert not np.array_equal(whole, sketches(ones, problem.support, 5, Round(4, 7)))


def test_the_sum_of_sketches_is_the_sketch_of_the_sum(problem: Problem) -> None:
    u = np.random.default_rng(0).normal(size=problem.support.size)
    one = ef.synthetic(n=1, d=30, m=3, c=1).support  # a single client that owns everything
    total = sketches(problem.support.scatter(u), one, 9, Round(2, 1))[0]
    assert sketches(u, problem.support, 9, Round(2, 1)).sum(axis=0) == pytest.approx(total)


def test_what_crosses_the_wire_is_counted(problem: Problem) -> None:
    method = ef.EF21(ef.TopK(1))
    plain = ef.solve(problem, method, ef.Constant(1e-3), rounds=10).history["payload_bits"]
    exact = ef.solve(problem, method, ef.Adaptive(), rounds=10).history["payload_bits"]
    sketch = ef.solve(problem, method, ef.Adaptive(sketch=5), rounds=10).history["payload_bits"]
    rounds = np.arange(1, 12)
    assert (exact - plain).tolist() == (64 * problem.n * rounds).tolist()
    assert (sketch - plain).tolist() == (64 * 6 * problem.n * rounds).tolist()


def test_the_same_for_any_number_of_shards(problem: Problem) -> None:
    runs = [
        ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Adaptive(sketch=4), rounds=50, seed=2, engine=ef.Local(s))
        for s in (1, 4, 12)
    ]
    runs.append(ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Adaptive(sketch=4), rounds=50, seed=2, engine=ef.Threads(2)))
    assert all(np.array_equal(run.x, runs[0].x) for run in runs)


def test_a_long_sketch_follows_the_exact_rule(problem: Problem) -> None:
    exact = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Adaptive(), rounds=300)
    sketch = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Adaptive(sketch=2000), rounds=300)
    assert sketch.history["gamma"][2:40] == pytest.approx(exact.history["gamma"][2:40], rel=0.25)  # before paths part
    assert np.median(sketch.history["gamma"]) == pytest.approx(np.median(exact.history["gamma"]), rel=0.1)
    assert sketch.history["f"][-1] == pytest.approx(exact.history["f"][-1], rel=0.05)


@pytest.mark.parametrize("sketch", [-1, 1.5, True, None])
def test_bad_lengths_are_refused(sketch: object) -> None:
    with pytest.raises(ValueError, match="sketch ="):
        ef.Adaptive(sketch=sketch)


def test_the_note_says_what_it_cost(problem: Problem) -> None:
    (note,) = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Adaptive(sketch=16), rounds=1).history.notes
    assert "17 numbers per client and round, counted" in note
