"""Lemma 2. If Assumption 2 holds, then Assumption 4, (1/n) sum_i ||grad f_i(x) - grad f_i(y)||^2 <= L_+^2 ||x - y||^2,
holds with L_+ <= sqrt(max_j {sum_{i: (i,j) not in Z} L_i^2} / n) <= min{ sqrt(c max_i L_i^2 / n), L_tilde }.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from theory.instances import FEW, ROUNDING, THEORY, Dense, dense, denses, norm2, seeds

import errorfeedback as ef
from errorfeedback.smoothness.constants import smoothness


def ratio(dense: Dense, x: np.ndarray, y: np.ndarray) -> float:
    """(1/n) sum_i ||grad f_i(x) - grad f_i(y)||^2 / ||x - y||^2, with the library's gradients."""
    problem = dense.problem()
    return norm2(problem.gradients_at(x) - problem.gradients_at(y)) / dense.n / norm2(x - y)


def holds(dense: Dense, L_plus: float, x: np.ndarray, y: np.ndarray) -> bool:
    """Assumption 4 at the pair x, y."""
    return ratio(dense, x, y) <= L_plus**2 * (1 + 1e-9)


def worst_direction(dense: Dense) -> np.ndarray:
    """The top eigenvector of (1/n) sum_i H_i^2 at 0, where the Hessians are largest."""
    H = dense.hessians()
    return np.linalg.eigh(np.mean(H @ H, axis=0))[1][:, -1]


@THEORY
@given(denses(), seeds)
def test_lemma_2_assumption_4_holds_with_the_bound_and_with_the_librarys_L_plus(dense, seed):
    constants = smoothness(dense.problem())
    rng = np.random.default_rng(seed)
    for scale in (1e-3, 1.0, 30.0):
        x, y = scale * rng.standard_normal((2, dense.d))
        assert holds(dense, constants.lemma_2, x, y)
        assert holds(dense, constants.L_plus, x, y)
    step = 1e-3 * worst_direction(dense)
    assert holds(dense, constants.L_plus, step, -step)


@THEORY
@given(denses())
def test_lemma_2_chain_of_bounds(dense):
    theory = ef.analyse(dense.problem())
    bound = theory.smoothness.lemma_2
    L_i = np.array([np.linalg.norm(H, 2) for H in dense.hessians()])
    columns = [L_i[dense.owned[:, j]] for j in range(dense.d)]
    assert np.isclose(bound, np.sqrt(max(norm2(column) for column in columns) / dense.n), rtol=1e-9)
    assert theory.L_plus <= bound * (1 + ROUNDING)
    assert bound <= np.sqrt(dense.c / dense.n) * theory.L_max * (1 + ROUNDING)
    assert bound <= theory.L_tilde * (1 + ROUNDING)


def test_lemma_2_tight_identical_clients_attain_all_three_bounds():
    block = np.array([[1.0, 2.0, -1.0]])
    theory = ef.analyse(Dense([block] * 4, [np.ones(1)] * 4).problem())
    assert np.allclose([theory.L_plus, theory.smoothness.lemma_2, theory.L_max, theory.L_tilde], 12.0, rtol=1e-12)


def test_lemma_2_tight_one_owner_per_feature_attains_the_bound_with_c_equal_to_1():
    instance = dense(3, 5, 9, 1)
    theory = ef.analyse(instance.problem())
    assert np.isclose(theory.L_plus, theory.L_max / np.sqrt(5), rtol=1e-12)
    assert np.isclose(theory.smoothness.lemma_2, theory.L_max / np.sqrt(5), rtol=1e-12)
    assert theory.L_plus < theory.L_tilde * 0.9, "slack: the bound of the old theory"


def test_lemma_2_tight_one_client_on_all_features_attains_L_tilde():
    # sum L_i^2 over the owners of the common feature is the whole sum.
    theory = ef.analyse(
        Dense([np.array([[2.0, 0.0]]), np.array([[1.0, 0.0]]), np.array([[3.0, 1e-9]])], [np.ones(1)] * 3).problem()
    )
    assert np.isclose(theory.smoothness.lemma_2, theory.L_tilde, rtol=1e-12)
    assert np.isclose(theory.L_plus, theory.L_tilde, rtol=1e-9)


@FEW
@given(denses(kinds=("squared",)))
def test_negative_control_one_percent_less_than_L_plus_is_refuted(dense):
    L_plus = smoothness(dense.problem()).L_plus
    v = worst_direction(dense)
    assert holds(dense, L_plus, v, -v)
    assert not holds(dense, 0.99 * L_plus, v, -v)


def test_negative_control_c_one_percent_too_small_is_refuted():
    # c of n clients with the same single feature: the middle bound of the chain is attained.
    for n, c in ((3, 2), (5, 3), (6, 6)):
        blocks = [np.eye(n + 1)[[0 if i < c else i]] for i in range(n)]
        instance = Dense(blocks, [np.ones(1)] * n)
        x, y = np.eye(n + 1)[0], np.zeros(n + 1)
        assert holds(instance, np.sqrt(c / n) * 2.0, x, y)
        assert not holds(instance, np.sqrt(0.99 * c / n) * 2.0, x, y)
