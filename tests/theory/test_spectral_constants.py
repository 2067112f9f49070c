"""L_plus and its weighted forms: above every gradient difference, below Lemma 2."""

from __future__ import annotations

import numpy as np
import pytest
from theory.quadratic_form import hessians
from theory_problems import KINDS, random_problem

import errorfeedback as ef
from errorfeedback.core import Floats
from errorfeedback.problems.base import Problem
from errorfeedback.smoothness import spectral_constants
from errorfeedback.smoothness.constants import smoothness
from errorfeedback.smoothness.spectral_constants import L_plus_spectral, rows_L_i, weighted_gradient_change

SHARINGS = ("none", "some", "all")


def changes(problem: Problem, v: Floats, rare: Floats, seed: int) -> float:
    """The largest sqrt(sum_i v_i ||P(grad f_i(y) - grad f_i(x))||^2)/||y - x|| that random pairs and power steps find."""
    rng = np.random.default_rng(seed)
    keep = rare[problem.support.indices]
    best = 0.0
    for _ in range(40):
        x, step = rng.normal(size=problem.d) * 10.0 ** rng.uniform(-6, 0), rng.normal(size=problem.d)
        for _ in range(8):
            step *= 10.0 ** rng.uniform(-6, 0) / np.linalg.norm(step)
            moved = keep * (problem.gradients_at(x + step) - problem.gradients_at(x))
            best = max(best, float(np.sqrt(v @ problem.support.norms2(moved))) / float(np.linalg.norm(step)))
            step = problem.support.scatter(np.repeat(v, problem.support.sizes) * moved)
            if not np.linalg.norm(step):
                break
    return best


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sharing", SHARINGS)
def test_weighted_change_is_an_upper_bound(kind: str, sharing: str) -> None:
    for seed in range(3):
        problem = random_problem(kind, seed, sharing)
        rng = np.random.default_rng(seed)
        v = rng.uniform(0, 1, problem.n)
        features = problem.support.by_feature.d
        for rare in (np.ones(features, dtype=bool), rng.random(features) < 0.6):
            s = smoothness(problem)
            bound, _ = weighted_gradient_change(s, v, rare, rows_L_i(s, rare))
            found = changes(problem, v, np.repeat(rare, problem.support.outputs), seed)
            assert found <= bound * (1 + 1e-9)
            if kind == "least squares":
                H = hessians(problem)
                exact = np.linalg.eigvalsh(np.einsum("i,iab,b,ibc->ac", v, H, rare, H))[-1]
                assert bound == pytest.approx(np.sqrt(exact), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sharing", SHARINGS)
def test_spectral_L_plus_is_between_the_truth_and_lemma_2(kind: str, sharing: str) -> None:
    for seed in range(3):
        problem = random_problem(kind, seed, sharing)
        value, how = L_plus_spectral(problem)
        everything = np.ones(problem.d, dtype=bool)
        truth = changes(problem, np.full(problem.n, 1 / problem.n), everything, seed)
        assert truth <= value * (1 + 1e-9)
        assert value <= smoothness(problem).lemma_2 * (1 + 1e-9)
        assert "exact" in how or "bound" in how


def test_rows_L_i_is_the_norm_of_the_rare_block() -> None:
    problem = random_problem("logistic", 3)
    rare = np.arange(problem.d) % 2 == 0
    norms = rows_L_i(smoothness(problem), rare)
    k = problem.curvature()
    for i in range(problem.n):
        rows = k.A[k.rows[i] : k.rows[i + 1]].toarray() * rare
        hessian = rows.T @ (k.weights[k.rows[i] : k.rows[i + 1], None] * rows)
        assert norms[i] == pytest.approx(np.linalg.norm(hessian, 2), abs=1e-12)


@pytest.mark.parametrize("kind", ["least squares", "logistic"])
def test_blockwise_co_coercivity(kind: str) -> None:
    """||P D_i||^2 <= L_i(P) <D_i, y - x>."""
    for seed in range(4):
        problem = random_problem(kind, seed)
        rng = np.random.default_rng(seed)
        rare = rng.random(problem.d) < 0.6
        L = rows_L_i(smoothness(problem), rare)
        support = problem.support
        for _ in range(50):
            x, y = rng.normal(size=(2, problem.d))
            y = x + (y - x) * 10.0 ** rng.uniform(-4, 0)
            D = problem.gradients_at(y) - problem.gradients_at(x)
            left = support.norms2(D * rare[support.indices])
            right = L * support.sums(D * support.gather(y - x))
            assert (left <= right * (1 + 1e-6) + 1e-14).all()


def test_blockwise_co_coercivity_is_tight() -> None:
    """One row per client: D_i = w a <a, y - x>, and ||P D_i||^2 = w ||P a||^2 <D_i, y - x> for every y - x; so L_i(P) cannot
    be one percent less. (Logistic: as both points come near 0.)"""
    rng = np.random.default_rng(0)
    A, rare = rng.normal(size=(3, 5)), np.array([True, False, True, True, False])
    for problem in (ef.least_squares(A, np.zeros(3), np.arange(3)), ef.logistic(A, [1, -1, 1], np.arange(3))):
        L, support = rows_L_i(smoothness(problem), rare), problem.support
        y = 1e-4 * rng.normal(size=5)
        D = problem.gradients_at(y) - problem.gradients_at(-y)
        left = support.norms2(D * rare[support.indices])
        right = L * support.sums(D * support.gather(2 * y))
        assert (left <= right * (1 + 1e-6)).all()
        assert (left > 0.99 * right).all(), "negative control"


def test_spectral_is_sharper_on_real_structure() -> None:
    """Clients with different directions: the norm of the sum is below the sum of the norms."""
    problem = ef.logistic(np.array([[1.0, 1.0], [1.0, -1.0]]), [0, 1], clients=[0, 1])
    assert L_plus_spectral(problem)[0] < 0.8 * smoothness(problem).lemma_2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sharing", SHARINGS)
def test_condition_ii_can_only_be_an_equality(kind: str, sharing: str) -> None:
    """L <= sqrt(c/n) L_plus by Lemma 4, so Table 1's condition (ii) never holds strictly; at c = 1 it is an equality."""
    for seed in range(5):
        problem = random_problem(kind, seed, sharing)
        s, c = smoothness(problem), problem.support.c
        assert np.sqrt(c / problem.n) * L_plus_spectral(problem)[0] * (1 + 1e-9) >= s.L
        if sharing == "none" and kind == "least squares":
            assert pytest.approx(np.sqrt(c / problem.n) * s.L_plus) == s.L


@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_are_alike_share_an_eigenvalue_that_is_still_above(kind: str) -> None:
    """v within 5% of a multiple of |J_i|/L_i: at most 2.5% above the bound of v's own eigenvalue, never below it."""
    for seed in range(3):
        problem = random_problem(kind, seed, "some")
        s, rare = smoothness(problem), np.ones(problem.support.by_feature.d, dtype=bool)
        L, rng = rows_L_i(s, rare), np.random.default_rng(seed)
        u = np.divide(problem.support.sizes, L, out=np.zeros(problem.n), where=L > 0)
        for scale in (1e-6, 1.0, 1e6):
            v = scale * u * rng.uniform(1.0, spectral_constants.ALIKE, problem.n)
            own = np.sqrt(spectral_constants._weighted_eigenvalue(s, v, rare, L).upper)
            shared = np.sqrt(spectral_constants.weighted_curvature(s, v, rare, L).upper)
            norms = np.sqrt(spectral_constants.over_features(s, v * L * (s.L_i - s.curvature.diagonal), rare))
            assert min(own, norms) * (1 - 1e-12) <= shared <= own * np.sqrt(spectral_constants.ALIKE) * 1.000001
    assert len(s.shared_eigenvalues) == 1
