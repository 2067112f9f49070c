"""Lemma 12. Let Assumption 2 hold. Then Assumption 1 holds for the separable problem (c = 1), f(x) = (1/n) sum_i f_i(x_i),
with L = max_i L_i / n.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from theory.instances import KINDS, THEORY, Dense, dense, denses, norm2, seeds

import errorfeedback as ef


def smooth_with(dense: Dense, L: float, x: np.ndarray, y: np.ndarray) -> bool:
    """Assumption 1 at the pair x, y, with the library's gradient."""
    problem = dense.problem()
    return norm2(problem.gradient(x) - problem.gradient(y)) <= L**2 * norm2(x - y) * (1 + 1e-9)


def worst_pair(dense: Dense) -> tuple[np.ndarray, np.ndarray]:
    """Close to 0, along the top eigenvector of the Hessian of f."""
    v = 1e-4 * np.linalg.eigh(dense.hessians().mean(axis=0))[1][:, -1]
    return v, -v


@THEORY
@given(denses(c=1), seeds)
def test_lemma_12_f_is_smooth_with_max_L_i_over_n(dense, seed):
    theory = ef.analyse(dense.problem())
    L = theory.L_max / dense.n
    rng = np.random.default_rng(seed)
    for scale in (1e-2, 1.0, 30.0):
        assert smooth_with(dense, L, *(scale * rng.standard_normal((2, dense.d))))
    assert smooth_with(dense, L, *worst_pair(dense))


@THEORY
@given(denses(c=1))
def test_lemma_12_tight_the_constant_is_attained_and_one_percent_less_is_refuted(dense):
    theory = ef.analyse(dense.problem())
    assert np.isclose(theory.L, theory.L_max / dense.n, rtol=1e-9)
    assert not smooth_with(dense, 0.99 * theory.L_max / dense.n, *worst_pair(dense)), "negative control"


@pytest.mark.parametrize("kind", KINDS)
def test_negative_control_with_shared_features_max_L_i_over_n_is_too_small(kind):
    # c = n identical clients: L = L_i, which is n times what the lemma would say; with c > 1 in general it is in between.
    one = dense(4, 1, 5, 1, kind)
    same = Dense(one.A * 3, one.b * 3, one.logistic, one.lam)
    theory = ef.analyse(same.problem())
    assert np.isclose(theory.L, theory.L_max, rtol=1e-9)
    assert not smooth_with(same, theory.L_max / 3, *worst_pair(same))
    shared = dense(4, 4, 6, 3, kind)
    theory = ef.analyse(shared.problem())
    assert not smooth_with(shared, theory.L_max / 4 * (1 - 1e-6), *worst_pair(shared))
