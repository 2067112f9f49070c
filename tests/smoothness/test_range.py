"""Data that are too small or too large to be squared: a clear error, and the right numbers up to there."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.problems.base import Problem
from errorfeedback.stepsizes.base import StepSize
from errorfeedback.stepsizes.best import rules
from errorfeedback.stepsizes.proved import Proved

METHOD = ef.EF21(ef.TopK(1))
RULES = [*rules(METHOD), ef.Best(), ef.Adaptive(), ef.Automatic()]
each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)


def problem(scale: float, first: float = 1.0) -> Problem:
    """Four clients; the values of client 0 are `first` times the others'."""
    rng = np.random.default_rng(0)
    A = scale * rng.normal(size=(12, 6))
    A[:3] *= first
    return ef.least_squares(A, rng.normal(size=12), np.repeat(np.arange(4), 3))


@each_rule
@pytest.mark.parametrize("scale", [1e-170, 1e-160, 1e-100, 1e80, 1e154, 1e300])
def test_what_cannot_be_squared_twice_is_refused_with_the_value_the_rule_and_the_fix(rule: StepSize, scale: float) -> None:
    with pytest.raises(ValueError, match=r"the largest value of the data is .* from 1e-70 to 1e\+70: multiply the features"):
        ef.solve(problem(scale), METHOD, rule, rounds=1)


@each_rule
@pytest.mark.parametrize("power", [-210, 210])
def test_gamma_is_as_exact_at_the_ends_of_the_range(rule: Proved, power: int) -> None:
    """Powers of two: gamma goes with the inverse of the square, to the last digits."""
    plain = ef.solve(problem(1.0), METHOD, rule, rounds=0).history["gamma"][0]
    other = ef.solve(problem(2.0**power), METHOD, rule, rounds=0).history["gamma"][0]
    assert other * 4.0**power == pytest.approx(plain, rel=1e-12)


@pytest.mark.parametrize("rule", rules(METHOD), ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("first", [1e-100, 1e-170, 1e-300])
def test_a_client_without_curvature_does_not_spoil_the_others_step(rule: Proved, first: float) -> None:
    """Its L_i is 0 by rounding: gamma is that of a client with next to nothing, and Psi's weights are finite and hold."""
    tiny = ef.analyse(problem(1.0, first), METHOD.compressor)
    proof = rule.proof(tiny, METHOD)
    assert proof.gamma == pytest.approx(rule.gamma(ef.analyse(problem(1.0, 1e-30), METHOD.compressor)), rel=1e-9)
    assert np.isfinite(proof.weights).all()
    assert (proof.weights > 0).all()
    assert ef.solve(tiny.problem, METHOD, rule, rounds=50).certificate.holds


@pytest.mark.parametrize("scale", [1e-170, 1e170])
def test_scaling_brings_such_data_into_the_range(scale: float) -> None:
    scaled = ef.scaled(problem(scale))
    assert np.isfinite(scaled.scale).all()
    assert (scaled.scale > 0).all()
    result = ef.solve(scaled, METHOD, ef.Best(), rounds=50)
    assert result.certificate.holds
    assert result.history["f"][-1] < result.history["f"][0]
