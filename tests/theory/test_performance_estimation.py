"""Step sizes against exact worst cases: no theorem of ours promises more than the worst function allows, and the sharp ones
promise just that.
"""

from __future__ import annotations

import numpy as np
import pytest
from theory.performance_estimation import contraction, descent, error_feedback

import errorfeedback as ef

clarabel = pytest.importorskip("clarabel", reason="worst cases need an SDP solver: pip install clarabel")
DIGITS = 1e-6
"""What the solver leaves."""


def theory_of(d, k, L=3.0):
    """One client with f(x) = (L/2)|x - 1|^2 on d features, and TopK: alpha = k/d."""
    problem = ef.least_squares(np.sqrt(L * d / 2) * np.eye(d), np.full(d, np.sqrt(L * d / 2)), clients=1)
    theory = ef.analyse(problem, ef.TopK(k))
    assert pytest.approx(L) == theory.L
    assert theory.alpha == pytest.approx(k / d)
    return theory


@pytest.mark.parametrize("N", [1, 3])
def test_gradient_descent_with_one_over_l_has_the_published_exact_rates(N):
    """Convex: L/(4 N + 2) (Drori, Teboulle 2014). Not convex: 4 L/(3 N + 2) (Abbaszadehpeivasti, de Klerk, Zamani 2022),
    below the 2 L/N of our certificate."""
    theory = theory_of(2, 2)
    L, gamma = theory.L, ef.InverseL().gamma(theory)
    assert descent(N, gamma, L, 0.0, clarabel) == pytest.approx(L / (4 * N + 2), rel=DIGITS)
    worst = descent(N, gamma, L, -L, clarabel)
    assert worst == pytest.approx(4 * L / (3 * N + 2), rel=DIGITS)
    assert worst <= 2 / (gamma * N)
    assert descent(N, 0.97 * gamma, L, 0.0, clarabel) > L / (4 * N + 2) * (1 + 0.01)  # a shorter step is worse


@pytest.mark.parametrize("d", [10, 2], ids=["alpha = 0.1", "alpha = 0.5"])
@pytest.mark.parametrize(
    "rule", [ef.EF21Standard(), ef.RareFeatures(), ef.ExactRoot()], ids=lambda rule: type(rule).__name__
)
def test_no_function_and_no_compressor_beats_the_theorems_of_ef21(rule, d):
    """Psi falls as the proof says, and the mean of the squared gradients is below the bound."""
    theory, method = theory_of(d, 1), ef.EF21(ef.TopK(1))
    proof = rule.proof(theory, method)
    weight = proof.lyapunov(0.0, np.ones(1), 0.0)
    for N in (1, 4):
        rise, mean = error_feedback(N, proof.gamma, theory.alpha, weight, theory.L, clarabel)
        assert rise <= DIGITS
        assert mean <= 2 / (proof.gamma * N) * (1 + DIGITS)


@pytest.mark.parametrize("d", [10, 2], ids=["alpha = 0.1", "alpha = 0.5"])
def test_the_exact_root_is_the_largest_step_of_its_lyapunov_function(d):
    """Two percent above it there are a function and a compressor with which Psi does not fall."""
    theory, method = theory_of(d, 1), ef.EF21(ef.TopK(1))
    proof = ef.ExactRoot().proof(theory, method)
    weight = proof.lyapunov(0.0, np.ones(1), 0.0)
    above = error_feedback(1, 1.02 * proof.gamma, theory.alpha, 1.02 * weight, theory.L, clarabel)[0]
    assert above > 1e-3
    assert ef.RareFeatures().gamma(theory, method) < proof.gamma  # the paper's own step is shorter


def test_ef21_that_sends_everything_is_gradient_descent_in_the_worst_case_too():
    """alpha = 1: from Psi^0 = f - f* the mean over N = 1 round is |grad f(x_0)|^2 <= 2 L."""
    theory = theory_of(2, 2)
    proof = ef.RareFeatures().proof(theory, ef.EF21(ef.TopK(2)))
    assert proof.gamma == pytest.approx(1 / theory.L)
    assert error_feedback(1, proof.gamma, 1.0, 1.0, theory.L, clarabel)[1] == pytest.approx(2 * theory.L, rel=DIGITS)


def tight_rate(alpha, L, mu):
    """The best step of EF21 with one client and its exact rate per round (Berg Thomsen, Taylor, Dieuleveut 2025, Theorem 2).
    As alpha goes to 1, 2/(L + mu) and ((L - mu)/(L + mu))^2: gradient descent."""
    s = np.sqrt(1 - alpha)
    gamma = 2 / (L + mu) * (1 - s) / (1 + s)
    root = np.sqrt((L - mu) ** 2 + 16 * L * mu * s / (1 + s) ** 2)
    weight = gamma / (L + mu) * ((1 - s) * (L - mu) + (1 + s) * root)
    return gamma, s + (1 + s) * (L - mu) * weight / 4


@pytest.mark.parametrize("kappa", [2, 20])
@pytest.mark.parametrize("k", [1, 5, 9], ids=["alpha = 0.1", "alpha = 0.5", "alpha = 0.9"])
def test_ef21_on_strongly_convex_functions_has_the_published_exact_rate_and_no_step_of_ours_beats_it(k, kappa):
    theory, method = theory_of(10, k), ef.EF21(ef.TopK(k))
    L, mu, alpha = theory.L, theory.L / kappa, theory.alpha
    gamma, rate = tight_rate(alpha, L, mu)
    assert contraction(gamma, alpha, L, mu, clarabel) == pytest.approx(rate, rel=DIGITS)
    for other in (0.97 * gamma, 1.03 * gamma):
        assert contraction(other, alpha, L, mu, clarabel) > rate * (1 + 1e-4)
    for rule in (ef.EF21Standard(), ef.RareFeatures(), ef.ExactRoot()):
        ours = contraction(rule.gamma(theory, method), alpha, L, mu, clarabel)
        assert rate * (1 - DIGITS) <= ours < 1
