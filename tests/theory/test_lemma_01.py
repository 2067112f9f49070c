"""Lemma 1. Under Assumptions 1, 2 and 3, the optimal theoretical communication complexity of EF21 obtained by Richtarik et
al. (2021) is achieved when the parameter K in the TopK compressor equals the dimension d.

Proof: T = 2 (f(x^0) - f*)(L + L_tilde ((1 + sqrt(1 - alpha))/alpha - 1)) / epsilon rounds with alpha = K/d, each client
sends K numbers per round, and L <= L_tilde; so T K n is smallest at K = d.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from theory.instances import FEW, THEORY, Dense, dense, denses

import errorfeedback as ef


def old_complexity(L: float, L_tilde: float, K: np.ndarray, d: int) -> np.ndarray:
    """T K with f(x^0) - f* = epsilon/2, straight from the proof."""
    alpha = K / d
    return (L + L_tilde * ((1 + np.sqrt(1 - alpha)) / alpha - 1)) * K


def complexity_of_the_library(problem, rule) -> np.ndarray:
    """T K for K = 1, ..., d, where 1/gamma is what the library's rule says."""
    steps = [rule.gamma(ef.analyse(problem, ef.TopK(k))) for k in range(1, problem.d + 1)]
    return np.arange(1, problem.d + 1) / np.array(steps)


def best(complexity: np.ndarray) -> int:
    return int(np.argmin(complexity)) + 1


@THEORY
@given(st.floats(1e-3, 1e3), st.floats(0, 1), st.integers(1, 2000))
def test_lemma_1_the_best_K_is_d_whenever_L_is_at_most_L_tilde(L_tilde, share, d):
    complexity = old_complexity(share * L_tilde, L_tilde, np.arange(1, d + 1), d)
    assert best(complexity) == d
    assert (np.diff(complexity) < 0).all(), "the proof's derivative is negative, so the complexity falls with K"


@FEW
@given(denses())
def test_lemma_1_with_the_librarys_standard_rule(dense):
    problem = dense.problem()
    theory = ef.analyse(problem)
    complexity = complexity_of_the_library(problem, ef.EF21Standard())
    assert theory.L_tilde * (1 + 1e-12) >= theory.L
    assert np.allclose(
        complexity, old_complexity(theory.L, theory.L_tilde, np.arange(1, problem.d + 1), problem.d), rtol=1e-12
    )
    assert best(complexity) == problem.d
    assert np.isclose(complexity[-1], problem.d * theory.L, rtol=1e-12), "at K = d EF21 is DGD: d numbers, L/epsilon rounds"


def test_lemma_1_tight_the_complexity_spans_a_factor_of_two_at_L_equal_to_L_tilde():
    # At L = L_tilde it is L (1 + sqrt(1 - K/d)) d: from almost 2 L d at K = 1 down to L d at K = d.
    d = 10_000
    complexity = old_complexity(1.0, 1.0, np.arange(1, d + 1), d) / d
    assert np.isclose(complexity[0], 1 + np.sqrt(1 - 1 / d), rtol=1e-12)
    assert complexity[-1] == 1.0


@THEORY
@given(st.floats(1e-3, 1e3), st.floats(1.001, 50), st.integers(2, 500))
def test_negative_control_the_best_K_is_1_when_L_is_too_large(L_tilde, excess, d):
    # The proof needs L <= L_tilde. The complexity is concave in K, so its minimum is at 1 or d, and it jumps to 1 where
    # L/L_tilde passes 1 + 1/sqrt(1 - 1/d) > 2, which no average of f_i can reach.
    threshold = (1 + 1 / np.sqrt(1 - 1 / d)) * L_tilde
    assert best(old_complexity(threshold * excess, L_tilde, np.arange(1, d + 1), d)) == 1
    assert best(old_complexity(threshold / excess, L_tilde, np.arange(1, d + 1), d)) == d


def test_negative_control_with_the_new_rule_the_best_K_is_r_and_neither_d_nor_1():
    # The same minimisation with Theorem 1's step: every client owns its own 10 of 200 features, so K/d is not its alpha.
    # At K = r nothing is compressed (r numbers per round, 1/L); Top1 needs L (1 + xi) = L/theta, almost twice r L.
    n, r = 20, 10
    rng = np.random.default_rng(0)
    blocks = []
    for i in range(n):
        block = np.zeros((3, n * r))
        block[:, i * r : (i + 1) * r] = rng.standard_normal((3, r))
        blocks.append(block)
    problem = Dense(blocks, [np.ones(3)] * n).problem()
    theory = ef.analyse(problem, ef.TopK(1))
    new = complexity_of_the_library(problem, ef.RareFeatures())
    assert best(complexity_of_the_library(problem, ef.EF21Standard())) == problem.d
    assert best(new) == r
    assert np.isclose(new[r - 1], r * theory.L, rtol=1e-9)
    assert np.isclose(new[0], theory.L / (1 - np.sqrt(1 - 1 / r)), rtol=1e-9)
    assert 1.9 * new[r - 1] < new[0] < problem.d * theory.L / 5, (
        "above a DGD that sends r numbers, far below one that sends d"
    )


def test_the_instances_have_the_sparsity_they_claim():
    for n, d, c in ((1, 1, 1), (4, 3, 2), (6, 6, 6), (5, 9, 1), (6, 2, 3)):
        for kind in ("squared", "logistic"):
            instance = dense(7, n, d, c, kind)
            problem = instance.problem()
            assert (problem.n, problem.d, problem.support.c) == (n, d, c) == (instance.n, instance.d, instance.c)
            assert np.array_equal(problem.support.sizes, instance.sizes)
            assert instance.sizes.min() >= 1
            assert instance.owned.sum(axis=0).min() >= 1
