"""`result.certificate`: held, violated at round t, or not applicable, for every rule with its own Psi."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.core import PerClient
from errorfeedback.methods.base import Method
from errorfeedback.problems.base import Problem
from errorfeedback.stepsizes.best import rules
from errorfeedback.stepsizes.proved import Proved
from errorfeedback.theory.analysis import Theory

METHOD = ef.EF21(ef.TopK(1))
RULES = rules(METHOD)


@pytest.fixture(scope="module")
def problem() -> Problem:
    return ef.synthetic(n=12, d=24, m=3, c=3)


@pytest.mark.parametrize("rule", [*RULES, ef.Best()], ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("start", ["zero", "gradient"])
@pytest.mark.parametrize("every", [1, 7])
def test_every_proved_rule_is_certified(problem: Problem, rule: Proved, start: str, every: int) -> None:
    result = ef.solve(problem, ef.EF21(ef.TopK(1), start), rule, rounds=200, every=every)
    assert result.certificate.verdict == "held", result.certificate
    assert result.certificate.complete == (every == 1)


@pytest.mark.parametrize("every", [1, 7, 50])
def test_the_mean_is_over_the_rounds_that_it_says(problem: Problem, every: int) -> None:
    """Neither the certificate nor `verify` divides the recorded gradients by rounds that were not recorded."""
    result = ef.solve(problem, METHOD, ef.RareFeatures(), rounds=205, every=every)
    recorded = result.history["grad_norm2"][:-1]
    for certificate in (result.certificate, ef.verify(result)):
        assert certificate.holds
        assert certificate.mean_grad_norm2 == pytest.approx(recorded.mean(), rel=1e-12)
        assert (certificate.recorded, certificate.length) == (len(recorded), 205)
        assert certificate.complete == (every == 1)
        assert ("over every round" in str(certificate)) == (every == 1)
        assert (f"between the {len(recorded)} recorded rounds of 205" in str(certificate)) == (every != 1)


def test_the_bound_is_checked_on_the_mean_over_all_rounds() -> None:
    """A lower bound on f that is false makes Psi small: its descent is the same, and the bound alone is broken."""
    problem = ef.synthetic(n=3, d=4, m=4, c=3, noise=0.1)
    method = ef.EF21(ef.TopK(1), "gradient")  # G^0 = 0: Psi^0 = f(x^0) - f*
    h = ef.solve(problem, method, ef.RareFeatures(), rounds=30).history
    needed = h["gamma"][0] / 2 * h["grad_norm2"][:-1].sum()
    for share, verdict in ((1.01, "held"), (0.99, "violated at round 30")):
        false = h["f"][0] - share * needed
        assert ef.solve(problem, method, ef.RareFeatures(), rounds=30, f_star=false).certificate.verdict == verdict


@pytest.mark.parametrize(("excess", "held"), [(0.0, True), (1e-10, True), (3e-9, False), (1e-6, False)])
def test_a_step_that_is_a_few_billionths_too_long_is_violated(excess: float, held: bool) -> None:
    """f = x^2 at gamma = (1 + excess)/L: Psi falls by (gamma/2)||grad f||^2 less excess Psi, and the slack is 1e-9 Psi."""
    one = ef.least_squares(np.ones((1, 1)), np.zeros(1), clients=1)
    gamma = (1 + excess) / 2
    result = ef.solve(one, ef.EF21(ef.TopK(1), "gradient"), ef.Constant(gamma), rounds=1, x0=np.ones(1))
    assert ef.verify(result).holds == held


@dataclass(frozen=True)
class Optimist(Proved):
    """A rule that claims 8 times (by default) the step that its theorem gives."""

    methods: ClassVar[tuple[type[Method], ...]] = (ef.EF21,)
    rule: Proved
    factor: float = 8.0

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        return self.factor * self.rule.gamma(theory, method)

    def weights(self, theory: Theory) -> PerClient:
        return self.rule.weights(theory)

    def first(self, method: Method) -> int:
        return self.rule.first(method)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_a_rule_that_is_too_optimistic_is_caught(rule: Proved) -> None:
    """Along a run, which is not the theorem's worst case (where 1% is too much: theory/test_descent_by_eigenvalues)."""
    problem = ef.synthetic(n=3, d=4, m=4, c=3, noise=0.1)
    assert ef.solve(problem, METHOD, rule, rounds=300).certificate.holds
    certificate = ef.solve(problem, METHOD, Optimist(rule), rounds=300).certificate
    assert certificate.verdict.startswith("violated at round")
    assert certificate.violated_at is not None


def test_the_violated_round_is_the_first_one() -> None:
    problem = ef.synthetic(n=3, d=4, m=4, c=3, noise=0.1)
    result = ef.solve(problem, METHOD, Optimist(ef.Weighted()), rounds=50)
    h, gamma = result.history, result.history["gamma"][0]
    psi = h["lyapunov"]
    rises = np.flatnonzero(psi[2:] > psi[1:-1] - gamma / 2 * h["grad_norm2"][1:-1] + 1e-9 * psi[1]) + 1
    assert result.certificate.violated_at == h["round"][rises[0]]


def test_gradient_descent_is_certified_and_one_percent_more_is_not(problem: Problem) -> None:
    """Along the steepest direction of a quadratic the descent is an equality at 1/L."""
    assert ef.solve(problem, ef.DGD(), ef.InverseL(), rounds=50).certificate.holds
    steep = ef.least_squares(np.diag([3.0, 1.0]), np.zeros(2), clients=1)
    assert ef.solve(steep, ef.DGD(), ef.InverseL(), rounds=1, x0=np.array([1.0, 0.0])).certificate.holds

    @dataclass(frozen=True)
    class Longer(ef.InverseL):
        def gamma(self, theory: Theory, method: Method | None = None) -> float:
            return 1.01 / theory.L

    assert not ef.solve(steep, ef.DGD(), Longer(), rounds=1, x0=np.array([1.0, 0.0])).certificate.holds


def test_exact_on_common_is_certified_from_round_1(problem: Problem) -> None:
    result = ef.solve(problem, ef.EF21(ef.ExactOnCommon((0, 1, 2))), ef.Best(), rounds=200)
    assert result.certificate.holds, result.certificate


@pytest.mark.parametrize(
    ("method", "rule", "reason"),
    [
        (METHOD, ef.Constant(1e-3), "claims no theorem"),
        (METHOD, ef.Adaptive(), "claims no theorem"),
        (ef.EF21(ef.TopK(1), "authors"), ef.RareFeatures(), "authors' start"),
        (ef.EF21(ef.RandK(1).contractive()), ef.RareFeatures(), "in expectation"),
        (ef.MARINA(ef.RandK(1)), ef.MarinaIndependent(), "claims no theorem"),
    ],
)
def test_not_applicable_says_why(problem: Problem, method: Method, rule: ef.StepSize, reason: str) -> None:
    certificate = ef.solve(problem, method, rule, rounds=20).certificate
    assert certificate.verdict == "not applicable"
    assert reason in str(certificate)
    assert not certificate.holds


def test_without_metrics_there_is_nothing_to_check(problem: Problem) -> None:
    certificate = ef.solve(problem, METHOD, ef.Best(), rounds=20, metrics=False).certificate
    assert "metrics=True" in str(certificate)


def test_one_round_is_too_few(problem: Problem) -> None:
    assert "fewer than two rounds" in str(ef.solve(problem, METHOD, ef.Weighted(), rounds=1).certificate)


def test_theorem_1_bound_is_the_published_formula(problem: Problem) -> None:
    result = ef.solve(problem, METHOD, ef.RareFeatures(), rounds=100)
    h, gamma = result.history, result.history["gamma"][0]
    published = result.theory.bound(100, h["f"][0], h["G"][0], gamma)
    assert result.certificate.bound == pytest.approx(published)
    assert ef.verify(result).bound == pytest.approx(published)
    assert ef.verify(result).holds
