"""Scaling: the same minimum, the same sparsity, curvature 1 for every feature, and the exchange on the books."""

from __future__ import annotations

import numpy as np
import pytest
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.problems.scaling import scaled


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((40, 12)) * 10.0 ** rng.uniform(-3, 3, 12) * (rng.random((40, 12)) < 0.6)
    return ef.logistic(A, rng.integers(0, 2, 40), clients=5, intercept=True)


def test_values_and_gradients_are_those_of_f_after_x_equals_S_z(problem):
    s, z = scaled(problem), np.random.default_rng(1).standard_normal(problem.d)
    x = s.unscaled(z)
    assert s.value(z) == problem.value(x)
    np.testing.assert_allclose(s.gradient(z), s.scale * problem.gradient(x), rtol=1e-14)
    np.testing.assert_allclose(s.rescaled(x), z, rtol=1e-14)


def test_every_feature_has_curvature_about_one(problem):
    """Sums that are rounded to powers of two are off by at most sqrt(2), and the scale by 2^(1/8)."""
    k = scaled(problem).curvature()
    diagonal = (k.A.power(2).T @ k.weights) / problem.n
    assert np.all(diagonal <= 2**0.75 * (1 + 1e-12))
    assert np.all(diagonal >= 2**-0.75 * (1 - 1e-12))


def test_a_power_brings_curvatures_to_a_power_of_their_share_with_l2_inside(problem):
    s, l2 = scaled(problem, power=0.5, l2=1e-2), 1e-2
    k = problem.curvature()
    diagonal = (k.A.power(2).T @ k.weights) / problem.n
    wanted = (diagonal + l2) ** -0.25 * s.reference**0.5
    assert np.all(s.scale <= 2**0.25 * wanted)  # 2^(1/8) by its own rounding, 2^(1/8) by that of the sums
    assert np.all(s.scale >= 2**-0.25 * wanted)
    per_column = np.full(problem.width, l2)
    assert np.array_equal(scaled(problem, power=0.5, l2=per_column).scale, s.scale)


def test_dense_features_lose_their_units_and_rare_ones_half_their_rarity():
    """Eight columns in every row, in units from 1e-6 to 1e6; and one-hot columns of falling frequency."""
    rng = np.random.default_rng(0)
    dense = rng.choice([-1.0, 1.0], (4000, 8)) * 10.0 ** np.linspace(-6, 6, 8)
    rare = (rng.random((4000, 6)) < 0.4 ** np.arange(1, 7)).astype(float)
    A = np.hstack([dense, rare])
    problem = ef.logistic(A, rng.integers(0, 2, 4000), clients=20)
    s = scaled(problem, power=None)
    curvature = 0.25 * (A**2).mean(axis=0) * s.scale**2
    assert np.all(np.abs(np.log2(curvature[:8])) <= 1)
    frequency = rare.mean(axis=0)
    halved = curvature[8:] / np.sqrt(frequency)
    assert np.all(s.powers[8:] == 0.5)
    assert halved.max() <= 2 * halved.min()
    bare = s.scale * s.hessian_units * np.sqrt(0.25 * (A**2).mean(axis=0))
    assert np.all(np.abs(np.log2(bare)) <= 1)  # Hessians are told with a diagonal of about 1


def test_many_clients_agree_on_powers_and_reference_whatever_the_ranks_are(problem):
    s = scaled(problem, power=None, l2=1e-3)
    assert set(np.unique(s.powers)) <= {0.5, 4 / 6, 5 / 6, 1.0}
    part = s.shard(1, 3)
    assert np.array_equal(part.hessian_units, s.hessian_units)


def test_scaled_smoothness_is_at_most_the_longest_row_times_the_rounding(problem):
    longest = np.diff(problem.A.indptr).max()
    assert longest * 2**0.75 >= ef.analyse(scaled(problem)).L
    assert 1000 * longest < ef.analyse(problem).L


def test_sparsity_is_untouched(problem):
    s = scaled(problem)
    assert s.support is problem.support
    assert np.array_equal(ef.analyse(s, ef.TopK(1)).alpha_i, ef.analyse(problem, ef.TopK(1)).alpha_i)


def test_the_exchange_is_counted():
    problem = pair("logistic", n=5, d=12)[0]
    s = scaled(problem)
    exponents = [
        np.rint(np.log2(np.asarray(problem.lifted.power(2).T @ (0.25 * problem.shares))))[a:b]
        for a, b in zip(problem.support.indptr[:-1], problem.support.indptr[1:], strict=True)
    ]
    width = [np.ceil(np.log2(np.ptp(e) + 1)) for e in exponents]
    up = sum(15 + w * len(e) for w, e in zip(width, exponents, strict=True))
    starts = problem.support.indptr[:-1]
    scales = 4 * np.log2(problem.support.gather(s.scale))
    ptp = np.maximum.reduceat(scales, starts) - np.minimum.reduceat(scales, starts)
    down = (18 + np.ceil(np.log2(np.rint(ptp) + 1)) * problem.support.sizes).sum()
    h = ef.solve(s, ef.EF21(ef.TopK(1)), ef.Constant(0.1), rounds=3).history
    plain = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Constant(0.1), rounds=3).history
    assert set((h["uplink_bits"] - plain["uplink_bits"]).tolist()) == {int(up)}
    assert set((h["downlink_bits"] - plain["downlink_bits"]).tolist()) == {int(down)}


def test_shards_agree(problem):
    s = scaled(problem)
    a, b = (ef.solve(s, ef.EF21(ef.TopK(1)), ef.Constant(0.1), rounds=30, engine=ef.Local(k)) for k in (1, 4))
    assert np.array_equal(a.x, b.x)
