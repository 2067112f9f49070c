"""Lemma 8. Choose any i in [n], K_i in [d] and x in R^d. If g_i in R^d_i, then the vector
g_i^+ = g_i + TopK_i(grad f_i(x) - g_i) also belongs to R^d_i.

It is why the lifted space is enough: the library stores g_i on J_i only, and loses nothing.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from theory.instances import FEW, STARTS, THEORY, Dense, denses, ef21, levels, lift, node_at, rounds_of, seeds, top_k, unlift

import errorfeedback as ef
from errorfeedback.core import Round


def in_R_d_i(g: np.ndarray, owned: np.ndarray) -> bool:
    return not g[~owned].any()


def update(dense: Dense, g: np.ndarray, k: tuple[int, ...], x: np.ndarray) -> np.ndarray:
    """g_i^+ of every client, literally, on R^d."""
    grads = dense.grads(x)
    return g + np.array([top_k(grads[i] - g[i], k[i]) for i in range(dense.n)])


@THEORY
@given(denses(), seeds)
def test_lemma_8_one_step_from_any_g_in_R_d_i(dense, seed):
    rng = np.random.default_rng(seed)
    g, x = rng.standard_normal((dense.n, dense.d)) * dense.owned, rng.standard_normal(dense.d)
    k = tuple(int(K) for K in rng.integers(1, dense.d + 1, size=dense.n))  # K_i in [d], also above |J_i|
    after = update(dense, g, k, x)
    assert in_R_d_i(after, dense.owned)

    problem, method = dense.problem(), ef.EF21(ef.TopK(k))
    _, lifted = method.client(lift(g, dense.owned), node_at(problem, method, x), Round(1, 0))
    assert np.allclose(unlift(lifted, dense.owned), after, rtol=1e-12, atol=1e-12 * np.abs(after).max())


@FEW
@given(denses(), seeds, st.sampled_from(STARTS))
def test_lemma_8_along_a_run_the_library_stores_all_of_g_i(dense, seed, start):
    k = levels(seed, dense)
    x0 = np.random.default_rng(seed).standard_normal(dense.d)
    gamma = ef.RareFeatures().gamma(ef.analyse(dense.problem(), ef.TopK(k)))
    literal = list(ef21(dense, k, gamma, x0, start, 10))
    library = list(rounds_of(dense, k, gamma, x0, start, 10))
    for a, b in zip(literal, library, strict=True):
        assert in_R_d_i(a.g, dense.owned)
        assert np.allclose(a.g, b.g, rtol=1e-9, atol=1e-11 * np.abs(literal[0].grads).max())


@THEORY
@given(denses(), seeds)
def test_lemma_8_tight_K_equal_to_the_size_of_J_i_sends_the_whole_gradient(dense, seed):
    rng = np.random.default_rng(seed)
    g, x = rng.standard_normal((dense.n, dense.d)) * dense.owned, rng.standard_normal(dense.d)
    after = update(dense, g, tuple(int(s) for s in dense.sizes), x)
    assert np.allclose(after, dense.grads(x), rtol=1e-12, atol=1e-12 * np.abs(g).max())


@THEORY
@given(seeds)
def test_negative_control_a_g_i_outside_R_d_i_does_not_come_back(seed):
    # The same update from a g_i with one small entry outside J_i: Top1 sends something larger, and the entry stays.
    dense = Dense([np.array([[4.0, 0.0]]), np.array([[0.0, 2.0]])], [np.ones(1)] * 2)
    x = np.random.default_rng(seed).standard_normal(2)
    g = np.array([[100.0, 0.01], [0.0, 0.0]])
    assert not in_R_d_i(update(dense, g, (1, 1), x), dense.owned)
    assert in_R_d_i(update(dense, g * dense.owned, (1, 1), x), dense.owned)


def test_negative_control_a_wrong_support_is_noticed():
    # The check is about Z: with a feature of a client declared foreign, its gradient estimate is found outside.
    dense = Dense([np.array([[4.0, 1.0]]), np.array([[0.0, 2.0]])], [np.ones(1)] * 2)
    after = update(dense, np.zeros((2, 2)), (2, 1), np.zeros(2))
    assert in_R_d_i(after, dense.owned)
    assert not in_R_d_i(after, dense.owned & np.array([[True, False], [True, True]]))
