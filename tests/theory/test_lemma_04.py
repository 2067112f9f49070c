"""Lemma 4. If u_1 in R^d_1, ..., u_n in R^d_n, then ||sum_i u_i||^2 <= c sum_i ||u_i||^2.

In the lifted space: ||P'u||^2 <= c ||u||^2, P' being `Support.scatter`.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from theory.instances import ROUNDING, THEORY, denses, lift, norm2, seeds

from errorfeedback.sparsity.support import Support


def holds(support: Support, u: np.ndarray, c: float) -> bool:
    return norm2(support.scatter(u)) <= c * norm2(u) * (1 + ROUNDING)


def indicator(support: Support, feature: int) -> np.ndarray:
    """u_i = e_j for the owners of feature j, else 0."""
    return (support.indices == feature).astype(float)


@THEORY
@given(denses(kinds=("squared",)), seeds)
def test_lemma_4_scatter_norm_is_at_most_c(dense, seed):
    support = dense.problem().support
    u = np.random.default_rng(seed).standard_normal((dense.n, dense.d)) * dense.owned
    assert support.c == dense.c
    assert np.allclose(support.scatter(lift(u, dense.owned)), u.sum(axis=0), rtol=0, atol=1e-12)
    assert norm2(u.sum(axis=0)) <= dense.c * norm2(u) * (1 + ROUNDING)
    assert holds(support, lift(u, dense.owned), support.c)
    assert holds(support, np.abs(lift(u, dense.owned)), support.c), "the worst signs"


@THEORY
@given(denses(kinds=("squared",)))
def test_lemma_4_tight_the_most_shared_feature_attains_c_and_one_percent_less_is_refuted(dense):
    support = dense.problem().support
    busiest = int(np.argmax(support.counts))
    u = indicator(support, busiest)
    assert norm2(support.scatter(u)) == support.c * norm2(u)
    assert holds(support, u, support.c)
    assert not holds(support, u, 0.99 * support.c), "negative control"


@THEORY
@given(denses(kinds=("squared",), c=1), seeds)
def test_lemma_4_tight_orthogonal_vectors_give_equality_at_c_equal_to_1(dense, seed):
    support = dense.problem().support
    u = np.random.default_rng(seed).standard_normal(support.size)
    assert support.c == 1
    assert np.isclose(norm2(support.scatter(u)), norm2(u), rtol=1e-12)


@pytest.mark.parametrize(("n", "d"), [(2, 1), (3, 4), (7, 5)])
def test_lemma_4_tight_parallel_vectors_give_equality_at_c_equal_to_n(n, d):
    support = Support(indptr=np.arange(n + 1) * d, indices=np.tile(np.arange(d), n), d=d)
    u = np.tile(np.random.default_rng(0).standard_normal(d), n)
    assert np.isclose(norm2(support.scatter(u)), n * norm2(u), rtol=1e-12)
    assert not holds(support, u, 0.99 * n), "negative control"


def test_negative_control_vectors_outside_R_d_i_break_the_lemma():
    # Two clients with one feature each (c = 1); a client that writes into the other's feature breaks ||sum||^2 <= 1 * sum.
    u = np.array([[1.0, 1.0], [0.0, 1.0]])
    assert norm2(u.sum(axis=0)) > 1 * norm2(u)
