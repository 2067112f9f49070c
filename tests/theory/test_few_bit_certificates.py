"""Certificates of runs in few bits: the theorems with Lemma B's alpha hold, and a few percent more of anything do not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from scipy import sparse
from theory.test_certificate import Optimist

import errorfeedback as ef
from errorfeedback.compressors.few_bits import FewBits, lost_share
from errorfeedback.core import PerClient
from errorfeedback.problems.base import Problem
from errorfeedback.sparsity.support import Support
from errorfeedback.stepsizes.base import StepSize
from errorfeedback.stepsizes.proved import Proved

COMPRESSORS = [ef.PowersOfTwo(4), ef.SmallFloat(3, 2), ef.SmallFloat(4, 3), ef.Uniform(8), ef.Uniform(6, block=4)]
ENTRIES = 1500
THRESHOLD = 48.0
"""Half-way between 32 and 64 units: an entry there is off by a third of itself, the most that powers of two can be."""


@pytest.fixture(scope="module")
def problem() -> Problem:
    return ef.synthetic(n=12, d=60, m=3, c=4)


@pytest.mark.parametrize("start", ["zero", "compressed", "gradient"])
@pytest.mark.parametrize("rule", [ef.RareFeatures(), ef.Convex(), ef.Best()], ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("compressor", COMPRESSORS, ids=str)
def test_a_run_in_few_bits_is_certified(problem: Problem, compressor: FewBits, rule: StepSize, start: str) -> None:
    """By its rule's own Psi, and by Theorem 1's, whose bound has Lemma B's alpha for the largest client."""
    result = ef.solve(problem, ef.EF21(compressor, start), rule, rounds=150)
    assert result.certificate.verdict == "held", result.certificate
    verified = ef.verify(result)
    assert verified.verdict == "held", verified
    h, theta = result.history, 1 - np.sqrt(lost_share(compressor.coding, min(problem.support.r, compressor.coding.length)))
    gamma, c, n = h["gamma"][0], problem.support.c, problem.n
    assert verified.bound == pytest.approx(2 * h["f"][0] / (gamma * 150) + c / n * h["G"][0] / (theta * 150))


def steep() -> Problem:
    """Four clients with f_i = ||x - z_i||^2/2, where the step after round 0 is nearly the worst there is.

    Lemma A is an equality where all u_i are one vector u, gamma L (p + u) = 2u (Young's inequality at 1 - alpha = 1/9) and
    C loses a third of what it gets. In round 0 the clients send gradients of +-48, of which 3 are rounded up and 1 down:
    u_i = 16 for all, p = 24, and gamma L (p + u) = 33 at the exact root. Feature 0 is exact and keeps 64 units just above.
    """
    signs = np.array([1.0, 1.0, 1.0, -1.0])
    grads = np.outer(signs * THRESHOLD * (1 + 1e-6 * signs), np.ones(ENTRIES))
    grads[:, 0] = 64.0, 64.0, 64.0, 128.0
    root = np.sqrt(ENTRIES / 2)  # f_i = (1/m)||A_i x - b_i||^2 with m rows
    A = sparse.vstack([root * sparse.eye_array(ENTRIES)] * 4, format="csr")
    return ef.least_squares(A, -root * grads.ravel(), np.repeat(np.arange(4), ENTRIES))


@pytest.mark.parametrize("rule", [ef.ExactRoot(), ef.Convex()], ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize(("factor", "held"), [(1.0, True), (1.02, True), (1.05, False), (1.1, False)])
def test_a_step_that_is_five_percent_too_long_is_caught(rule: Proved, factor: float, held: bool) -> None:
    result = ef.solve(steep(), ef.EF21(ef.PowersOfTwo(4)), Optimist(rule, factor), rounds=2)
    assert result.certificate.holds == held, result.certificate
    assert ef.verify(result).holds == held
    assert held or result.certificate.violated_at == 1


def test_theorem_1s_own_step_has_the_room_of_the_exact_root() -> None:
    """1/(L + M) against 2/(L + sqrt(L^2 + 4 M^2)) at M = L/2: a factor of 1.243, and a few percent after it."""
    for factor, held in ((1.0, True), (1.24, True), (1.3, False)):
        result = ef.solve(steep(), ef.EF21(ef.PowersOfTwo(4)), Optimist(ef.RareFeatures(), factor), rounds=2)
        assert result.certificate.holds == held


@dataclass(frozen=True)
class Boastful(ef.PowersOfTwo):
    """Claims a larger alpha than it has."""

    more: float = 1.0

    def alpha(self, support: Support) -> PerClient:
        return PerClient(self.more * super().alpha(support))


@pytest.mark.parametrize(("more", "held"), [(1.0, True), (1.03, False), (1.05, False)])
def test_an_alpha_that_is_three_percent_too_large_is_caught(more: float, held: bool) -> None:
    result = ef.solve(steep(), ef.EF21(Boastful(4, more=more)), ef.Best(), rounds=2)
    assert result.certificate.holds == held, result.certificate
    assert ef.verify(result).holds == held
