"""The quadratics of Szlendak et al.: the oracle and the constants against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.experiments.perm_k_quadratics import PERMK, RANDK, steps
from errorfeedback.experiments.quadratics import QuadraticTask


def dense(task):
    """A_i and b_i, from the definition."""
    xi, xi_b = np.random.default_rng(task.seed).standard_normal((2, task.n))
    T = 2 * np.eye(task.d) - np.eye(task.d, k=1) - np.eye(task.d, k=-1)
    A = [(1 + task.noise * v) / 4 * T for v in xi]
    shift = task.lam - np.linalg.eigvalsh(np.mean(A, axis=0)).min()
    b = [(1 + task.noise * v) / 4 * (-1 + task.noise * w) * np.eye(task.d)[0] for v, w in zip(xi, xi_b, strict=True)]
    return [a + shift * np.eye(task.d) for a in A], b


@pytest.mark.parametrize("noise", [0.0, 0.8])
def test_values_gradients_and_constants_are_those_of_the_matrices(noise):
    task = QuadraticTask(noise, seed=1, n=4, d=12)
    (A, b), problem, x = dense(task), task.make(), np.random.default_rng(0).standard_normal(12)
    np.testing.assert_allclose(problem.values_at(x), [x @ a @ x / 2 - v @ x for a, v in zip(A, b, strict=True)])
    wanted = [a @ x - v for a, v in zip(A, b, strict=True)]
    np.testing.assert_allclose(problem.gradients_at(x).reshape(4, 12), wanted)
    np.testing.assert_allclose(problem.shard(1, 3).gradients_at(x).reshape(2, 12), wanted[1:3])
    mean, k = np.mean(A, axis=0), task.constants()
    assert pytest.approx(np.linalg.norm(mean, 2)) == k.L
    assert pytest.approx(np.linalg.norm(np.mean([a @ a for a in A], axis=0), 2) ** 0.5) == k.L_plus
    spread = np.mean([(a - mean) @ (a - mean) for a in A], axis=0)
    assert pytest.approx(np.linalg.norm(spread, 2) ** 0.5, abs=1e-9) == k.L_pm
    assert np.linalg.eigvalsh(mean).min() == pytest.approx(task.lam, rel=1e-6)


def test_steps_are_those_of_marinas_rule_with_an_ab_inequality():
    """On equal rows at every client L_pm = 0, where PermK's step is that of gradient descent and RandK's is MarinaAB's."""
    task = QuadraticTask(0.0, seed=0, n=4, d=12)
    A, _ = dense(task)
    rows = np.vstack([np.sqrt(12 / 2) * np.linalg.cholesky(a).T for a in A])
    problem = ef.least_squares(rows, np.zeros(len(rows)), clients=4)
    for name, compressor in ((PERMK, ef.PermK()), (RANDK, ef.RandK(3))):
        method = ef.MARINA(compressor).bind(problem.support)
        assert method.p == 1 / 4
        gamma = ef.MarinaAB().gamma(ef.analyse(problem, compressor), method)
        assert steps(task)[name] == pytest.approx(gamma, rel=1e-6)
