"""Lemma 5. Assume that g_i^0 in R^d_i for all i in [n]. Then, it holds for all t >= 0 that
||g^t - grad f(x^t)||^2 <= (c/n) G^t, where G^t = (1/n) sum_i ||g_i^t - grad f_i(x^t)||^2.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from theory.instances import FEW, STARTS, Dense, dense, denses, ef21, levels, norm2, rounds_of, seeds

import errorfeedback as ef

ROUNDS = 12
FLOOR = 1e-24
"""Below this share of sum ||grad f_i||^2 an error is rounding (squared), and says nothing about c."""
start = st.sampled_from(STARTS)


def worst_share(states) -> float:
    """max_t n ||g^t - grad f(x^t)||^2 / G^t: the smallest c with which the lemma holds along the run."""
    return max((len(s.g) * s.error2 / s.G for s in states if FLOOR * norm2(s.grads) < s.G), default=0.0)


def step_size(dense: Dense, k: tuple[int, ...], factor: float) -> float:
    return factor * ef.RareFeatures().gamma(ef.analyse(dense.problem(), ef.TopK(k)))


@FEW
@given(denses(), seeds, start, st.sampled_from((0.5, 1.0, 4.0)))
def test_lemma_5_holds_along_every_run(dense, seed, start, factor):
    k = levels(seed, dense)
    x0 = np.random.default_rng(seed).standard_normal(dense.d)
    gamma = step_size(dense, k, factor)
    assert worst_share(rounds_of(dense, k, gamma, x0, start, ROUNDS)) <= dense.c * (1 + 1e-9)
    assert worst_share(ef21(dense, k, gamma, x0, start, ROUNDS)) <= dense.c * (1 + 1e-9)


@FEW
@given(denses(), seeds, start)
def test_lemma_5_in_the_history_of_solve(dense, seed, start):
    k = levels(seed, dense)
    x0 = np.random.default_rng(seed).standard_normal(dense.d)
    result = ef.solve(dense.problem(), ef.EF21(ef.TopK(k), start=start), ef.RareFeatures(), rounds=ROUNDS, x0=x0)
    states = list(ef21(dense, k, result.history["gamma"][0], x0, start, ROUNDS))
    noise = FLOOR * max(norm2(s.grads) for s in states)
    error2 = result.history["c_t"] * result.history["G"] / dense.n
    assert np.allclose(result.history["G"], [s.G for s in states], rtol=1e-9, atol=noise)
    assert np.allclose(error2, [s.error2 for s in states], rtol=1e-9, atol=noise)
    assert (error2 <= dense.c / dense.n * result.history["G"] * (1 + 1e-9) + noise).all()


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("kind", ["squared", "penalty", "logistic"])
def test_lemma_5_tight_identical_clients_attain_c_equal_to_n_in_every_round(n, kind):
    one = dense(5, 1, 6, 1, kind)
    instance = Dense(one.A * n, one.b * n, one.logistic, one.lam)
    k = (1,) * n
    for s in rounds_of(instance, k, step_size(instance, k, 1.0), np.ones(6), "zero", ROUNDS):
        assert np.isclose(n * s.error2, n * s.G, rtol=1e-9)


def test_lemma_5_tight_separable_clients_attain_c_equal_to_1_in_every_round():
    instance, k = dense(2, 4, 9, 1), (1, 1, 1, 1)
    for s in rounds_of(instance, k, step_size(instance, k, 1.0), np.ones(9), "zero", ROUNDS):
        assert np.isclose(4 * s.error2, s.G, rtol=1e-9)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_negative_control_c_one_percent_too_small_is_refuted(n):
    one = dense(5, 1, 6, 1)
    instance, k = Dense(one.A * n, one.b * n), (1,) * n
    share = worst_share(rounds_of(instance, k, step_size(instance, k, 1.0), np.ones(6), "zero", ROUNDS))
    assert share <= n * (1 + 1e-9)
    assert share > 0.99 * n


def test_negative_control_the_lemma_needs_g_0_in_R_d_i():
    # c = 1, but all clients start from the same g_i^0 outside R^d_i: their errors are parallel, not orthogonal.
    instance = dense(2, 4, 9, 1)
    grads = instance.grads(np.zeros(9))
    error = np.full((4, 9), 10.0) - grads
    assert 4 * ((error.mean(axis=0)) ** 2).sum() > instance.c * (error**2).sum(axis=1).mean()
