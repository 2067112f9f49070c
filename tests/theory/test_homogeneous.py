"""Section 3.3: "EF21 has absolutely no scaling in the homogeneous data regime". With f_1 = ... = f_n = f and identical
g_i^0, all g_i^t coincide, "the average of these estimators does not depend on n and, as a result, EF21 generates the same
chain of iterates x^t for any value of n."
"""

from __future__ import annotations

import numpy as np
import pytest
from theory.instances import KINDS, STARTS, Dense, dense

import errorfeedback as ef

ROUNDS = 60
COUNTS = (2, 3, 5, 8)


def copies(one: Dense, n: int) -> Dense:
    return Dense(one.A * n, one.b * n, one.logistic, one.lam)


def chain(dense: Dense, method: ef.EF21, gamma: float) -> np.ndarray:
    """f, ||grad f||^2 and G of every round, and x at the end, as one vector."""
    result = ef.solve(dense.problem(), method, ef.Constant(gamma), rounds=ROUNDS, x0=np.ones(dense.d), seed=1)
    h = result.history
    return np.concatenate([h["f"], h["grad_norm2"], h["G"], result.x])


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return np.allclose(a, b, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("k", [1, 3])
def test_homogeneous_iterates_do_not_depend_on_n(kind, start, k):
    one = dense(8, 1, 7, 1, kind, most_rows=6)
    method = ef.EF21(ef.TopK(k), start=start)
    gamma = ef.RareFeatures().gamma(ef.analyse(one.problem(), ef.TopK(k)))
    alone = chain(one, method, gamma)
    for n in COUNTS:
        assert same(chain(copies(one, n), method, gamma), alone)
    assert np.array_equal(chain(copies(one, 2), method, gamma)[-7:], alone[-7:]), "n = 2: (a + a)/2 is a, to the last bit"


@pytest.mark.parametrize("kind", KINDS)
def test_homogeneous_the_theorems_step_size_does_not_depend_on_n_either(kind):
    one = dense(8, 1, 7, 1, kind)
    steps = [ef.RareFeatures().gamma(ef.analyse(copies(one, n).problem(), ef.TopK(2))) for n in (1, *COUNTS)]
    assert np.allclose(steps, steps[0], rtol=1e-9)


def test_negative_control_independent_random_compressors_do_depend_on_n():
    # The argument needs the same message from everyone: RandK draws per client, and averaging helps.
    one = dense(8, 1, 7, 1)
    gamma = ef.RareFeatures().gamma(ef.analyse(one.problem(), ef.TopK(1)))
    method = ef.EF21(ef.RandK(1).contractive())
    for n in COUNTS:
        assert not same(chain(copies(one, n), method, gamma), chain(one, method, gamma))


def test_negative_control_one_different_client_changes_the_chain():
    one = dense(8, 1, 7, 1)
    gamma = ef.RareFeatures().gamma(ef.analyse(one.problem(), ef.TopK(1)))
    method = ef.EF21(ef.TopK(1))
    for n in COUNTS:
        other = Dense([*one.A * (n - 1), 1.01 * one.A[0]], one.b * n)
        assert not same(chain(other, method, gamma), chain(one, method, gamma))
