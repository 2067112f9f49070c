"""Lemma 6. If Assumption 2 holds, then for every i in [n] and all x, y in R^d,
sum_{j: (i,j) not in Z} ((grad f_i(x))_j - (grad f_i(y))_j)^2 <= L_i^2 sum_{j: (i,j) not in Z} (x_j - y_j)^2.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from theory.instances import FEW, KINDS, THEORY, Dense, dense, denses, seeds

from errorfeedback.smoothness.constants import smoothness


def ratios(dense: Dense, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Left-hand side over ||(x - y)_{J_i}||^2, per client, with the library's gradients."""
    problem = dense.problem()
    left = problem.support.norms2(problem.gradients_at(x) - problem.gradients_at(y))
    return left / np.array([((x - y)[owned] ** 2).sum() for owned in dense.owned])


def holds(dense: Dense, L_i: np.ndarray, x: np.ndarray, y: np.ndarray) -> bool:
    return bool((ratios(dense, x, y) <= L_i**2 * (1 + 1e-9)).all())


def worst_pair(dense: Dense, i: int, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Two points around 0 along client i's top eigenvector, the other clients' coordinates moved a little."""
    v = np.linalg.eigh(dense.hessian(i, np.zeros(dense.d)))[1][:, -1]
    v = np.where(dense.owned[i], v, 1.0)
    return size * v, -size * v


@THEORY
@given(denses(), seeds)
def test_lemma_6_the_gradient_moves_at_most_L_i_times_the_own_coordinates(dense, seed):
    L_i = smoothness(dense.problem()).L_i
    rng = np.random.default_rng(seed)
    for scale in (1e-2, 1.0, 30.0):
        x, y = scale * rng.standard_normal((2, dense.d))
        assert holds(dense, L_i, x, y)


@THEORY
@given(denses(), seeds)
def test_lemma_6_other_clients_coordinates_do_not_matter(dense, seed):
    problem = dense.problem()
    x, y = np.random.default_rng(seed).standard_normal((2, dense.d))
    for i in range(dense.n):
        z = np.where(dense.owned[i], x, y)
        segment = slice(problem.support.indptr[i], problem.support.indptr[i + 1])
        assert np.array_equal(problem.gradients_at(x)[segment], problem.gradients_at(z)[segment])
        assert not dense.gradient(i, x)[~dense.owned[i]].any(), "grad f_i(x) is in R^d_i"


@FEW
@given(denses())
def test_lemma_6_tight_L_i_is_attained_and_one_percent_less_is_refuted(dense):
    # Least squares: anywhere along the top eigenvector. Penalty and logistic: in the limit at 0, where both curve most.
    L_i = smoothness(dense.problem()).L_i
    for i in range(dense.n):
        x, y = worst_pair(dense, i, 1e-4)
        assert np.isclose(ratios(dense, x, y)[i], L_i[i] ** 2, rtol=1e-4)
        smaller = np.where(np.arange(dense.n) == i, 0.99 * L_i, L_i)
        assert holds(dense, L_i, x, y)
        assert not holds(dense, smaller, x, y), "negative control"


@pytest.mark.parametrize("kind", KINDS)
def test_negative_control_the_mean_of_L_i_is_not_enough_for_every_client(kind):
    instance = dense(11, 5, 8, 3, kind)
    L_i = smoothness(instance.problem()).L_i
    steepest = int(np.argmax(L_i))
    x, y = worst_pair(instance, steepest, 1e-4)
    assert not holds(instance, np.full(5, L_i.mean()), x, y)
