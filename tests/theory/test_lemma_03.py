"""Lemma 3. Consider Algorithm 1. Then, for all i in [n] and x in R^d_i, we have
||TopK_i(x) - x||^2 <= (1 - min{K_i, |J_i|} / |J_i|) ||x||^2.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from theory.instances import THEORY, alphas, denses, levels, lift, seeds, top_k, unlift

import errorfeedback as ef
from errorfeedback.core import Round
from errorfeedback.sparsity.support import full_support


def left_over(compressor: ef.TopK, u: np.ndarray, support) -> np.ndarray:
    """||TopK_i(u_i) - u_i||^2 of every client, by the library."""
    return support.norms2(compressor.on(support)(u, Round(0, 0)).lifted() - u)


def contracts(compressor: ef.TopK, u: np.ndarray, support, alpha: np.ndarray) -> bool:
    return bool((left_over(compressor, u, support) <= (1 - alpha) * support.norms2(u) * (1 + 1e-12)).all())


@THEORY
@given(denses(kinds=("squared",)), seeds, st.sampled_from((0.0, 0.5, 1.0, 3.0)))
def test_lemma_3_on_random_supports(dense, seed, spread):
    k, support = levels(seed, dense), dense.problem().support
    rng = np.random.default_rng(seed)
    u = rng.standard_normal((dense.n, dense.d)) * np.exp(spread * rng.standard_normal(dense.d)) * dense.owned
    alpha = ef.TopK(k).alpha(support)
    assert np.array_equal(alpha, alphas(dense, k))
    assert contracts(ef.TopK(k), lift(u, dense.owned), support, alpha)
    for sent, full, K in zip(
        unlift(ef.TopK(k).on(support)(lift(u, dense.owned), Round(0, 0)).lifted(), dense.owned), u, k, strict=True
    ):
        assert np.array_equal(sent, top_k(full, K)), "TopK on R^{|J_i|} is TopK on R^d for vectors of R^d_i"


@THEORY
@given(st.integers(1, 12) | st.just(1), arrays(np.float64, st.integers(1, 100), elements=st.floats(-100, 100)))
def test_lemma_3_on_any_numbers(k, u):
    support = full_support(1, len(u))
    assert contracts(ef.TopK(k), u, support, np.array([min(k, len(u)) / len(u)]))
    assert np.array_equal(ef.TopK(k).on(support)(u, Round(0, 0)).lifted(), top_k(u, k))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 20])
def test_lemma_3_tight_equal_magnitudes_attain_the_constant(size):
    support, signs = full_support(1, size), np.where(np.arange(size) % 3 == 0, -1.0, 1.0)
    for k in range(1, size + 2):
        kept = min(k, size)
        assert left_over(ef.TopK(k), signs, support)[0] == size - kept
        assert np.isclose((1 - ef.TopK(k).alpha(support)[0]) * size, size - kept, rtol=0, atol=1e-12 * size)


def test_lemma_3_slack_one_large_entry_is_sent_whole():
    assert left_over(ef.TopK(1), np.array([0.0, 5.0, 0.0]), full_support(1, 3))[0] == 0.0


@pytest.mark.parametrize("size", [2, 3, 7, 20])
def test_negative_control_an_alpha_one_percent_too_large_is_refuted(size):
    support, u = full_support(1, size), np.ones(size)
    for k in range(1, size):
        alpha = ef.TopK(k).alpha(support)
        assert contracts(ef.TopK(k), u, support, alpha)
        assert not contracts(ef.TopK(k), u, support, 1.01 * alpha)
        assert not contracts(ef.TopK(k), u, support, np.array([(k + 1) / size]))


def test_negative_control_the_K_smallest_entries_do_not_contract():
    # The constant is about *which* entries are sent: the K smallest leave more than (1 - K/d)||x||^2.
    u = np.array([3.0, 1.0, 2.0])
    smallest = np.array([0.0, 1.0, 0.0])
    assert ((smallest - u) ** 2).sum() > (1 - 1 / 3) * (u**2).sum()
