"""Lemma 9. Let Assumption 1 hold. Furthermore, let g_i^0 in R^d_i. Let x^{t+1} = x^t - gamma g^t be the EF21 method, where
g^t = (1/n) sum_i g_i^t, and gamma > 0 is the step size. Then
f(x^{t+1}) <= f(x^t) - (gamma/2) ||grad f(x^t)||^2 - (1/(2 gamma) - L/2) ||x^{t+1} - x^t||^2 + (gamma/2)(c/n) G^t.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from theory.instances import FEW, STARTS, Dense, State, denses, levels, norm2, rounds_of, seeds

import errorfeedback as ef


def gaps(dense: Dense, states: list[State], gamma: float, L: float, c: float) -> np.ndarray:
    """Right-hand side minus left-hand side in every round, relative to the size of the terms."""
    out = []
    for now, after in pairwise(states):
        step2, descent = norm2(after.x - now.x), gamma / 2 * norm2(now.grads.mean(axis=0))
        error = gamma / 2 * c / dense.n * now.G
        right = dense.f(now.x) - descent - (1 / (2 * gamma) - L / 2) * step2 + error
        size = dense.f(now.x) + dense.f(after.x) + descent + error + (1 / gamma + L) * step2
        out.append((right - dense.f(after.x)) / size)
    return np.array(out)


@FEW
@given(denses(), seeds, st.sampled_from(STARTS), st.sampled_from((0.1, 1.0, 5.0, 50.0)))
def test_lemma_9_for_every_step_size(dense, seed, start, factor):
    k = levels(seed, dense)
    theory = ef.analyse(dense.problem(), ef.TopK(k))
    gamma = factor * ef.RareFeatures().gamma(theory)
    x0 = np.random.default_rng(seed).standard_normal(dense.d)
    states = list(rounds_of(dense, k, gamma, x0, start, 6))
    assert (gaps(dense, states, gamma, theory.L, theory.c) >= -1e-12).all()


def identical_and_isotropic(n: int) -> Dense:
    """n times f_i(x) = ||x - b||^2 with d = 3 (L = 2): both steps of the proof, smoothness and Lemma 5, are equalities."""
    return Dense([np.sqrt(3) * np.eye(3)] * n, [np.array([1.0, -2.0, 3.0])] * n)


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("gamma", [0.05, 0.4, 1.0])
def test_lemma_9_tight_identical_isotropic_clients_give_equality_in_every_round(n, gamma):
    dense = identical_and_isotropic(n)
    theory = ef.analyse(dense.problem(), ef.TopK(1))
    states = list(rounds_of(dense, (1,) * n, gamma, np.zeros(3), "zero", 8))
    assert np.isclose(theory.L, 2.0, rtol=1e-12)
    assert np.allclose(gaps(dense, states, gamma, theory.L, theory.c), 0.0, atol=1e-12)


def broken(n: int, L_factor: float, c: float) -> bool:
    dense = identical_and_isotropic(n)
    states = list(rounds_of(dense, (1,) * n, 0.4, np.zeros(3), "zero", 8))
    return not (gaps(dense, states, 0.4, L_factor * 2.0, c) >= -1e-12).all()


def test_negative_control_a_smaller_L_or_c_is_refuted():
    for n in (2, 5):
        assert not broken(n, 1.0, n)
        assert broken(n, 0.99, n), "L one percent too small"
        assert broken(n, 1.0, 0.99 * n), "c one percent too small"
