"""S0 is exact, the rest is TopK, and the bits are honest."""

from __future__ import annotations

import numpy as np
import pytest
from theory_problems import random_problem

import errorfeedback as ef
from errorfeedback.compressors.exact_on_common import most_common
from errorfeedback.core import Round
from errorfeedback.sparsity.support import full_support


@pytest.mark.parametrize("seed", range(5))
def test_the_error_lives_off_S0_and_contracts_there(seed: int) -> None:
    problem = random_problem("least squares", seed)
    support = problem.support
    rng = np.random.default_rng(seed)
    compressor = ef.ExactOnCommon(most_common(support, 2), rng.integers(1, 4, problem.n))
    common = compressor.exact(support)[support.indices]
    operator = compressor.on(support)
    for _ in range(20):
        u = rng.normal(size=support.size)
        left = operator(u, Round(0, 0)).lifted() - u
        assert not left[common].any()
        off = support.norms2(np.where(common, 0.0, u))
        assert (support.norms2(left) <= (1 - compressor.alpha(support)) * off * (1 + 1e-12) + 1e-300).all()


def test_contraction_is_tight_on_equal_magnitudes() -> None:
    """|u_j| all equal: the inequality is an equality, so a larger alpha would be wrong."""
    support = full_support(2, 6)
    compressor = ef.ExactOnCommon((0, 1), 1)
    u = np.ones(support.size)
    left = compressor.on(support)(u, Round(0, 0)).lifted() - u
    off = 4.0
    assert support.norms2(left) == pytest.approx((1 - compressor.alpha(support)) * off)
    assert compressor.alpha(support) == pytest.approx(1 / 4)


def test_without_common_features_it_is_topk() -> None:
    problem = random_problem("least squares", 1)
    u = np.random.default_rng(0).normal(size=problem.support.size)
    plain, split = ef.TopK(2), ef.ExactOnCommon((), 2)
    assert np.array_equal(plain.alpha(problem.support), split.alpha(problem.support))
    a, b = plain.on(problem.support)(u, Round(0, 0)), split.on(problem.support)(u, Round(0, 0))
    assert np.array_equal(a.lifted(), b.lifted())
    assert a.frames.cost(0, 64) == b.frames.cost(0, 64)


def test_bits_values_of_S0_need_no_index() -> None:
    support = full_support(3, 10)
    head = 24 + 8  # version and check, count
    for compressor, payload, padding in (
        (ef.ExactOnCommon((4,), 1), 64 + 64 + 4, 4),  # 9 left: 4 bits per index
        (ef.ExactOnCommon((4, 5), 8), 10 * 64, 0),  # all is sent: no index
        (ef.ExactOnCommon(range(10), 1), 10 * 64, 0),
    ):
        assert compressor.message_bits(support).tolist() == [head + payload + padding] * 3
        assert compressor.frames(support).cost(0, 64)[:2] == (3 * (head + payload + padding), 3 * payload)


def test_a_client_with_common_features_only_has_alpha_1() -> None:
    problem = ef.least_squares(np.array([[1.0, 0.0], [1.0, 1.0]]), [1.0, 2.0], clients=[0, 1])
    assert ef.ExactOnCommon((0,), 1).alpha(problem.support).tolist() == [1.0, 1.0]
    assert ef.TopK(1).alpha(problem.support).tolist() == [1.0, 0.5]


@pytest.mark.parametrize(
    ("common", "message"),
    [((0, 0), "twice"), ((0.5,), "list of feature numbers"), (3, "list of feature numbers")],
)
def test_bad_sets_are_refused(common: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ef.ExactOnCommon(common)


def test_a_feature_that_is_not_there_is_named() -> None:
    problem = random_problem("least squares", 0)
    with pytest.raises(ValueError, match="common holds feature 99"):
        ef.solve(problem, ef.EF21(ef.ExactOnCommon((99,))), ef.Best(), rounds=1)
