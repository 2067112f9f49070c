"""Appendix, the fully separable case (c = 1): "applying Algorithm 1 to the problem f(x) = (1/n) sum_i f_i(x_i) is equivalent
to performing n independent runs of Algorithm 1 in a single-node scenario, where each run pertains to its own i-th block."

Block i moves by x_i^{t+1} = x_i^t - (gamma/n) g_i^t, so a single run uses the step size gamma/n.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from theory.instances import FEW, STARTS, Dense, dense, denses, levels, seeds

import errorfeedback as ef

ROUNDS = 30


def together(dense: Dense, k: tuple[int, ...], gamma: float, x0: np.ndarray, start: str) -> ef.Result:
    return ef.solve(dense.problem(), ef.EF21(ef.TopK(k), start=start), ef.Constant(gamma), rounds=ROUNDS, x0=x0)


def alone(dense: Dense, i: int, k: tuple[int, ...], gamma: float, x0: np.ndarray, start: str) -> ef.Result:
    """Client i with its own features only, as a problem with n = 1."""
    own = dense.owned[i]
    single = Dense([dense.A[i][:, own]], [dense.b[i]], dense.logistic, dense.lam)
    return ef.solve(single.problem(), ef.EF21(ef.TopK(k[i]), start=start), ef.Constant(gamma), rounds=ROUNDS, x0=x0[own])


def pieced_together(dense: Dense, k: tuple[int, ...], gamma: float, x0: np.ndarray, start: str) -> np.ndarray:
    """The n independent runs, put side by side."""
    x = np.full(dense.d, np.nan)
    for i in range(dense.n):
        x[dense.owned[i]] = alone(dense, i, k, gamma, x0, start).x
    return x


def step_size(dense: Dense, k: tuple[int, ...]) -> float:
    return ef.RareFeatures().gamma(ef.analyse(dense.problem(), ef.TopK(k)))


@FEW
@given(denses(c=1), seeds, st.sampled_from(STARTS), st.sampled_from((1.0, 1.5)))
def test_separable_EF21_is_n_independent_runs(dense, seed, start, factor):
    k = levels(seed, dense)
    x0 = np.random.default_rng(seed).standard_normal(dense.d)
    gamma = factor * step_size(dense, k)
    result = together(dense, k, gamma, x0, start)
    runs = [alone(dense, i, k, gamma / dense.n, x0, start) for i in range(dense.n)]
    scale = np.abs(x0).max() + np.abs(result.x).max()
    assert np.allclose(result.x, pieced_together(dense, k, gamma / dense.n, x0, start), rtol=0, atol=1e-11 * scale)
    f = np.mean([run.history["f"] for run in runs], axis=0)
    grad2 = np.sum([run.history["grad_norm2"] for run in runs], axis=0) / dense.n**2  # the appendix: orthogonal blocks
    G = np.mean([run.history["G"] for run in runs], axis=0)
    assert np.allclose(result.history["f"], f, rtol=1e-9, atol=1e-12 * f[0])
    assert np.allclose(result.history["grad_norm2"], grad2, rtol=1e-8, atol=1e-12 * grad2.max())
    assert np.allclose(result.history["G"], G, rtol=1e-8, atol=1e-12 * max(G.max(), grad2.max()))


def test_separable_bit_for_bit_when_n_is_a_power_of_two():
    # Then gamma (g_i/n) and (gamma/n) g_i round alike.
    for kind in ("squared", "penalty", "logistic"):
        instance = dense(1, 4, 9, 1, kind)
        k = levels(1, instance)
        gamma = step_size(instance, k)
        x = together(instance, k, gamma, np.ones(9), "zero").x
        assert np.array_equal(x, pieced_together(instance, k, gamma / 4, np.ones(9), "zero"))


def test_separable_the_theorem_allows_the_single_runs_exactly_their_own_step():
    # c = 1 with equal clients: gamma/n of Theorem 1 is the step 1/(L_i + L_i xi) of EF21 on one node.
    rows = np.array([[1.0, 2.0, 0.5], [0.0, 1.0, -1.0]])
    blocks = [np.zeros((2, 12)) for _ in range(4)]
    for i, block in enumerate(blocks):
        block[:, 3 * i : 3 * i + 3] = rows
    instance = Dense(blocks, [np.ones(2)] * 4)
    single = ef.analyse(Dense([rows], [np.ones(2)]).problem(), ef.TopK(1))
    assert np.isclose(step_size(instance, (1,) * 4) / 4, ef.EF21Standard().gamma(single), rtol=1e-12)


def test_negative_control_a_single_run_with_gamma_instead_of_gamma_over_n_goes_elsewhere():
    instance, k, x0 = dense(1, 4, 9, 1), (1,) * 4, np.ones(9)
    gamma = step_size(instance, k)
    x = together(instance, k, gamma, x0, "zero").x
    assert np.allclose(x, pieced_together(instance, k, gamma / 4, x0, "zero"), rtol=0, atol=1e-11)
    assert not np.allclose(x, pieced_together(instance, k, gamma, x0, "zero"), rtol=0, atol=1e-3)


def test_negative_control_one_shared_feature_couples_the_runs():
    instance, x0 = dense(1, 4, 9, 1), np.ones(9)
    A = [block.copy() for block in instance.A]
    lonely = int(np.flatnonzero(instance.owned[0])[0])
    A[1][:, lonely] = 1.0
    coupled = Dense(A, instance.b)
    assert coupled.c == 2
    gamma, k = step_size(coupled, (1,) * 4), (1,) * 4
    x, pieces = together(coupled, k, gamma, x0, "zero").x, pieced_together(coupled, k, gamma / 4, x0, "zero")
    assert not np.allclose(x, pieces, rtol=0, atol=1e-3)
