"""Clients that answer with probability p_i."""

from __future__ import annotations

import numpy as np
import pytest
from theory_problems import random_problem

import errorfeedback as ef
from errorfeedback.core import Round


def test_clients_answer_with_their_probability_and_independently() -> None:
    problem = random_problem("least squares", 2)
    p = np.linspace(0.2, 1.0, problem.n)
    operator = ef.Participating(ef.Identity(), p).on(problem.support)
    u = np.ones(problem.support.size)
    rounds = 4000
    answered = np.array([problem.support.sums(operator(u, Round(t, 5)).lifted()) > 0 for t in range(rounds)])
    assert np.abs(answered.mean(axis=0) - p).max() < 4 * 0.5 / np.sqrt(rounds)
    assert answered[:, -1].all()
    assert abs(np.corrcoef(answered[:, 0], answered[:, 1])[0, 1]) < 4 / np.sqrt(rounds)
    assert abs(np.corrcoef(answered[1:, 0], answered[:-1, 0])[0, 1]) < 4 / np.sqrt(rounds)


def test_alpha_is_p_alpha_in_expectation_and_tight() -> None:
    """E||C(u) - u||^2 = (1 - p alpha)||u||^2 on equal magnitudes, by simulation; alpha alone would be wrong."""
    problem = random_problem("least squares", 2, "all")
    compressor = ef.Participating(ef.TopK(1), 0.4)
    operator = compressor.on(problem.support)
    u = np.ones(problem.support.size)
    left = np.mean([problem.support.norms2(operator(u, Round(t, 0)).lifted() - u) for t in range(4000)], axis=0)
    expected = (1 - compressor.alpha(problem.support)) * problem.support.norms2(u)
    assert left == pytest.approx(expected, rel=0.02)


def test_the_same_for_any_number_of_shards() -> None:
    problem = ef.synthetic(n=12, d=30, m=3, c=4)
    method = ef.EF21(ef.Participating(ef.ExactOnCommon((0, 1), 2), np.linspace(0.1, 1, 12)))
    runs = [ef.solve(problem, method, ef.Best(), rounds=40, seed=3, engine=ef.Local(s)) for s in (1, 3, 12)]
    for run in runs[1:]:
        assert np.array_equal(run.x, runs[0].x)
        assert np.array_equal(run.history["uplink_bits"], runs[0].history["uplink_bits"])
        assert np.array_equal(run.history["downlink_bits"], runs[0].history["downlink_bits"])


def test_only_clients_that_answer_are_charged() -> None:
    problem = ef.synthetic(n=10, d=20, m=3, c=2)
    full = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Constant(1e-3), rounds=200)
    part = ef.solve(problem, ef.EF21(ef.Participating(ef.TopK(1), 0.25)), ef.Constant(1e-3), rounds=200)
    for column in ("uplink_bits", "downlink_bits"):
        assert part.history[column][-1] == pytest.approx(0.25 * full.history[column][-1], rel=0.1)


def test_everybody_answering_changes_nothing() -> None:
    problem = ef.synthetic(n=10, d=20, m=3, c=2)
    a = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Best(), rounds=50)
    b = ef.solve(problem, ef.EF21(ef.Participating(ef.TopK(1), 1.0)), ef.Best(), rounds=50)
    assert np.array_equal(a.x, b.x)
    assert a.history["uplink_bits"].tolist() == b.history["uplink_bits"].tolist()


def test_the_expected_bound_holds_on_average_over_seeds() -> None:
    """E (1/T) sum ||grad f||^2 <= 2 Psi/(gamma T): far from tight, but the mean over seeds must be below it."""
    problem = ef.synthetic(n=10, d=20, m=3, c=3)
    method = ef.EF21(ef.Participating(ef.TopK(1), 0.3))
    theory = ef.analyse(problem, method.compressor)
    rule = ef.Weighted()
    T = 300
    runs = [ef.solve(problem, method, rule, rounds=T, seed=seed) for seed in range(5)]
    psi = runs[0].history["lyapunov"][0]
    means = [run.history["grad_norm2"][:-1].mean() for run in runs]
    assert np.mean(means) <= 2 * psi / (rule.gamma(theory) * T)
    assert runs[0].certificate.verdict == "not applicable"
    assert "in expectation" in str(runs[0].certificate)


@pytest.mark.parametrize("p", [0.0, 1.5, -0.1, float("nan"), ()])
def test_bad_probabilities_are_refused(p: object) -> None:
    with pytest.raises(ValueError, match=r"in \(0, 1\]"):
        ef.Participating(ef.TopK(1), p)


def test_one_probability_per_client() -> None:
    with pytest.raises(ValueError, match="p has 2 entries, but there are 10 clients"):
        ef.solve(ef.synthetic(n=10, d=20, m=3, c=2), ef.EF21(ef.Participating(ef.TopK(1), (0.5, 0.5))), ef.Best(), rounds=1)


def test_adaptive_needs_everybody() -> None:
    with pytest.raises(ValueError, match="from every client"):
        ef.solve(ef.synthetic(n=10, d=20, m=3, c=2), ef.EF21(ef.Participating(ef.TopK(1), 0.5)), ef.Adaptive(), rounds=1)
