"""Lemma 10. The iterates of the EF21 method satisfy
G_i^{t+1} <= (1 - theta) G_i^t + beta ||grad f_i(x^{t+1}) - grad f_i(x^t)||^2, and
G^{t+1}   <= (1 - theta) G^t   + beta L_+^2 ||x^{t+1} - x^t||^2,
where theta = 1 - sqrt(1 - alpha), beta = (1 - alpha)/(1 - sqrt(1 - alpha)), alpha = min_i alpha_i and
alpha_i = min{K_i, |J_i|}/|J_i|.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from theory.instances import FEW, STARTS, Dense, State, alphas, denses, levels, node_at, norm2, rounds_of, seeds, theta_beta

import errorfeedback as ef
from errorfeedback.core import Round


def noise(now: State, after: State) -> np.ndarray:
    """Rounding in g_i + TopK(grad f_i - g_i) - grad f_i, squared, per client."""
    return 1e-28 * ((now.g**2).sum(axis=1) + (after.grads**2).sum(axis=1))


def per_client_holds(now: State, after: State, theta, beta) -> bool:
    moved = ((after.grads - now.grads) ** 2).sum(axis=1)
    right = (1 - theta) * now.G_i + beta * moved
    return bool((after.G_i <= right * (1 + 1e-9) + noise(now, after)).all())


def mean_holds(now: State, after: State, theta: float, beta: float, L_plus: float) -> bool:
    right = (1 - theta) * now.G + beta * L_plus**2 * norm2(after.x - now.x)
    return right * (1 + 1e-9) + noise(now, after).mean() >= after.G


@FEW
@given(denses(), seeds, st.sampled_from(STARTS), st.sampled_from((0.5, 1.0, 20.0)))
def test_lemma_10_per_client_and_mean_along_every_run(dense, seed, start, factor):
    k = levels(seed, dense)
    theory = ef.analyse(dense.problem(), ef.TopK(k))
    assert np.allclose((theory.theta, theory.beta), theta_beta(alphas(dense, k).min()), rtol=1e-12)
    gamma = factor * ef.RareFeatures().gamma(theory)
    x0 = np.random.default_rng(seed).standard_normal(dense.d)
    for now, after in pairwise(rounds_of(dense, k, gamma, x0, start, 8)):
        assert per_client_holds(now, after, theory.theta, theory.beta)
        assert mean_holds(now, after, theory.theta, theory.beta, theory.L_plus)
        # Its proof gives more: every client has a theta_i and beta_i of its own.
        assert per_client_holds(now, after, *theta_beta(alphas(dense, k)))


def tight_step(d: int, k: int, n: int = 1) -> tuple[State, State]:
    """Both inequalities of the proof as equalities: equal magnitudes (Lemma 3) and Young's vectors in the ratio zeta.

    f_i(x) = ||x||^2/2 (L_i = L_+ = 1) and gamma = 1; grad f_i(x) - g_i = 1 in every coordinate, and the gradient moves on
    by zeta = 1/sqrt(1 - alpha) - 1.
    """
    dense = Dense([np.sqrt(d / 2) * np.eye(d)] * n, [np.zeros(d)] * n)
    zeta = 1 / np.sqrt(1 - k / d) - 1
    problem, method = dense.problem(), ef.EF21(ef.TopK(k))
    x, g = np.full(d, 1 - zeta), np.full((n, d), -zeta)
    now = State(x, g, problem.gradients_at(x).reshape(n, d))
    x_new = x - 1.0 * g.mean(axis=0)
    grads = problem.gradients_at(x_new)
    _, g_new = method.client(g.ravel().copy(), node_at(problem, method, x_new), Round(1, 0))
    return now, State(x_new, g_new.reshape(n, d), grads.reshape(n, d))


sizes = pytest.mark.parametrize(("d", "k", "n"), [(2, 1, 1), (3, 1, 1), (5, 2, 3), (8, 7, 2), (20, 1, 4)])


@sizes
def test_lemma_10_tight_both_recursions_are_equalities(d, k, n):
    now, after = tight_step(d, k, n)
    theta, beta = theta_beta(k / d)
    right = (1 - theta) * now.G + beta * norm2(after.x - now.x)
    assert np.isclose(after.G, right, rtol=1e-12)
    assert np.allclose(after.G_i, (1 - theta) * now.G_i + beta * ((after.grads - now.grads) ** 2).sum(axis=1), rtol=1e-12)


@sizes
def test_negative_control_theta_too_large_or_beta_or_L_plus_too_small_is_refuted(d, k, n):
    now, after = tight_step(d, k, n)
    theta, beta = theta_beta(k / d)
    assert per_client_holds(now, after, theta, beta)
    assert mean_holds(now, after, theta, beta, L_plus=1.0)
    assert not per_client_holds(now, after, 1.01 * theta, beta)
    assert not per_client_holds(now, after, theta, 0.99 * beta)
    assert not mean_holds(now, after, 1.01 * theta, beta, L_plus=1.0)
    assert not mean_holds(now, after, theta, 0.99 * beta, L_plus=1.0)
    assert not mean_holds(now, after, theta, beta, L_plus=0.99)
    wrong = theta_beta(1.01 * k / d)
    assert not per_client_holds(now, after, *wrong), "alpha one percent too large"


def test_negative_control_the_largest_alpha_i_does_not_do_for_all_clients():
    # Client 0 sends everything (alpha_0 = 1), client 1 one of four numbers. theta and beta of alpha = 1 would say G = 0.
    dense = Dense([np.eye(4)[:1], np.eye(4)], [np.ones(1), np.arange(1.0, 5.0)])
    theory = ef.analyse(dense.problem(), ef.TopK(1))
    states = list(rounds_of(dense, (1, 1), ef.RareFeatures().gamma(theory), np.zeros(4), "zero", 5))
    assert theory.alpha == 0.25
    assert all(per_client_holds(a, b, *theta_beta(0.25)) for a, b in pairwise(states))
    assert not all(per_client_holds(a, b, *theta_beta(1.0)) for a, b in pairwise(states))
