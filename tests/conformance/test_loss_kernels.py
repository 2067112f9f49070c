"""The compiled kernels of the losses against their twins in numpy and scipy, also where exponentials overflow."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit, logsumexp, xlogy
from scipy.special import softmax as probabilities

from errorfeedback.keyed import stream, uniforms
from errorfeedback.problems.losses import dual, logistic, one_against_rest, poisson, softmax, squared

KINDS = [np.float64, np.float32]


@pytest.mark.parametrize("dtype", KINDS)
def test_the_logistic_slope_is_expit(dtype):
    rng = np.random.default_rng(0)
    z = np.concatenate([rng.standard_normal(500) * 10.0 ** rng.integers(-8, 4, 500), [0.0, -0.0, 800.0, -800.0]]).astype(
        dtype
    )
    y, w = np.sign(rng.standard_normal(504)).astype(dtype), rng.random(504).astype(dtype)
    out = np.empty(504, dtype=dtype)
    logistic._slopes(z, y, w, out)
    z, y, w = (v.astype(np.float64) for v in (z, y, w))
    twin = -y * w * expit(-np.clip(y * z, -logistic.LIMIT, logistic.LIMIT))
    np.testing.assert_allclose(
        out, twin, rtol=1e-14 if dtype is np.float64 else 1e-6, atol=0 if dtype is np.float64 else 1e-40
    )


@pytest.mark.parametrize("dtype", KINDS)
def test_the_logistic_loss_is_numpys(dtype):
    rng = np.random.default_rng(0)
    z = rng.standard_normal(500) * 10.0 ** rng.integers(-8, 4, 500)
    z, y = np.concatenate([z, [0.0, -0.0, 800.0, -800.0]]).astype(dtype), np.sign(rng.standard_normal(504)).astype(dtype)
    out = np.empty(504, dtype=dtype)
    logistic._values(z, y, out)
    twin = np.logaddexp(0.0, -(y * z).astype(np.float64))
    np.testing.assert_allclose(out, twin, rtol=1e-15 if dtype is np.float64 else 1.2e-7, atol=2e-45)


def predictions(dtype):
    """Scores of five classes of every size, also equal ones and some whose exponential is no number; classes; shares."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((500, 5)) * 10.0 ** rng.integers(-8, 4, (500, 1))
    z[:3] = np.zeros(5), np.full(5, 2000.0), [3000.0, -3000.0, 0.0, 3000.0, 1.0]
    return z.astype(dtype), rng.integers(0, 5, 500).astype(dtype), rng.random(500).astype(dtype)


@pytest.mark.parametrize("dtype", KINDS)
def test_the_softmax_loss_is_scipys(dtype):
    z, b, shares = predictions(dtype)
    values, slopes = np.empty(500, dtype=dtype), np.empty((500, 5), dtype=dtype)
    softmax._values(z, b, values)
    softmax._slopes(z, b, shares, slopes)
    wide, own = z.astype(np.float64), np.eye(5)[b.astype(int)]
    twin, rtol = logsumexp(wide, axis=1) - (wide * own).sum(axis=1), 1e-13 if dtype is np.float64 else 1e-5
    np.testing.assert_allclose(values, twin, rtol=rtol, atol=rtol * 1e3)
    np.testing.assert_allclose(slopes, shares[:, None] * (probabilities(wide, axis=1) - own), rtol=rtol, atol=rtol / 100)
    softmax._slopes(z, b, shares, z)
    assert np.array_equal(z, slopes)  # in place too


def test_a_small_softmax_loss_has_all_its_digits():
    """Where p is nearly 1, neither the loss nor any slope is a difference of large numbers."""
    z, b, rest = np.array([[40.0, 0.0, 1.0]]), np.zeros(1), np.exp([-40.0, -39.0])
    values, slopes = np.empty(1), np.empty((1, 3))
    softmax._values(z, b, values)
    softmax._slopes(z, b, np.ones(1), slopes)
    np.testing.assert_allclose(values, rest.sum(), rtol=1e-14)
    np.testing.assert_allclose(slopes[0], [-rest.sum(), *rest], rtol=1e-14)


@pytest.mark.parametrize("dtype", KINDS)
def test_the_slopes_of_one_against_rest_are_expit(dtype):
    z, b, shares = predictions(dtype)
    slopes = np.empty((500, 5), dtype=dtype)
    one_against_rest._slopes(z, b, shares, slopes)
    signs = 2 * np.eye(5)[b.astype(int)] - 1
    twin = -signs * shares[:, None] * expit(-signs * z.astype(np.float64))
    np.testing.assert_allclose(slopes, twin, rtol=1e-13 if dtype is np.float64 else 1e-5, atol=1e-37)
    one_against_rest._slopes(z, b, shares, z)
    assert np.array_equal(z, slopes)


@pytest.mark.parametrize("dtype", KINDS)
def test_the_poisson_loss_is_half_the_deviance(dtype):
    rng = np.random.default_rng(0)
    z = (rng.standard_normal(500) * 10.0 ** rng.integers(-6, 2, 500)).clip(-80, 80).astype(dtype)
    b, shares = rng.poisson(3.0, 500).astype(dtype), rng.random(500).astype(dtype)
    values, slopes = np.empty_like(z), np.empty_like(z)
    poisson._values(z, b, values)
    poisson._slopes(z, b, shares, slopes)
    wide, counts = z.astype(np.float64), b.astype(np.float64)
    rtol, size = 1e-13 if dtype is np.float64 else 1e-5, 1 + np.exp(wide) + counts * (1 + np.abs(wide))
    np.testing.assert_array_less(
        np.abs(values - (np.exp(wide) - counts * wide + xlogy(counts, counts) - counts)), rtol * size
    )
    np.testing.assert_array_less(np.abs(slopes - (np.exp(wide) - counts) * shares), rtol * size)
    poisson._slopes(z, b, shares, z)
    assert np.array_equal(z, slopes)  # in place too


def test_a_small_poisson_loss_has_its_digits():
    """b (exp(u) - 1 - u) is about b u^2 / 2 where z = log b + u: no difference of numbers of the size of b log b."""
    b, u, values = np.array([1e9, 1.0, 7.0]), 1e-5, np.empty(3)
    z = np.log(b) + u
    poisson._values(z, b, values)
    u = z - np.log(b)
    np.testing.assert_allclose(values, b * u**2 / 2 * (1 + u / 3), rtol=1e-9)


def test_the_poisson_loss_is_infinite_where_no_number_holds_it_and_nowhere_else():
    z, b = np.array([709.0, 711.0, -1e300, -1e300]), np.array([3.0, 3.0, 0.0, 2.0])
    values, slopes = np.empty(4), np.empty(4)
    poisson._values(z, b, values)
    poisson._slopes(z, b, np.ones(4), slopes)
    assert np.isfinite(values).tolist() == [True, False, True, True]
    assert values[1] == slopes[1] == np.inf
    assert slopes[2:].tolist() == [0.0, -2.0]


SLOPES = {squared: lambda z, b: 2 * (z - b), logistic: lambda z, b: -b * expit(-b * z)}


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("loss", SLOPES, ids=lambda loss: loss.__name__.split(".")[-1])
def test_a_step_of_dual_ascent_solves_its_equation_and_moves_w(loss, dtype):
    """u+ = -loss'(z + q (u+ - u)) for the rows that are drawn, one after the other."""
    rng, ends = np.random.default_rng(0), np.array([0, 4, 5, 9])
    A = (rng.standard_normal((9, 6)) * (rng.random((9, 6)) < 0.6)).astype(dtype)
    A[[0, 4, 5], [0, 2, 4]] = 1.0
    rows, b, weights = sparse.csr_array(A), np.sign(rng.standard_normal(9)).astype(dtype), rng.random(9).astype(dtype)
    w, u = rng.standard_normal(6).astype(dtype), np.zeros(9, dtype=dtype)
    twin, v, share = w.astype(np.float64), u.astype(np.float64), 1e-9 if dtype is np.float64 else 1e-3
    loss._ascend((rows.data, rows.indices, rows.indptr), ends, (3, 5, 7), 2, weights, b, w, u)
    for i in range(3):
        m = ends[i + 1] - ends[i]
        drawn = np.empty(2 * m)
        uniforms(3, 5, dual.DUALS + 7 + i, drawn)
        assert dual.first_draw((3, 5, 7), i) == stream(3, 5, dual.DUALS + 7 + i)
        for row in ends[i] + (drawn * m).astype(int):
            z, q = A[row] @ twin, weights[row] * (A[row] @ A[row])
            lo, hi = -100.0, 100.0
            for _ in range(200):
                middle = (lo + hi) / 2
                lo, hi = (lo, middle) if middle > -SLOPES[loss](z + q * (middle - v[row]), b[row]) else (middle, hi)
            twin, v[row] = twin + weights[row] * (middle - v[row]) * A[row], middle
    np.testing.assert_allclose(u, v, rtol=share, atol=share)
    np.testing.assert_allclose(w, twin, rtol=share, atol=share)


@pytest.mark.parametrize("z", [-800.0, -3.0, 0.0, 1e-9, 40.0, 800.0])
def test_a_dual_share_of_the_logistic_loss_stays_between_0_and_1(z):
    for last, q in ((0.0, 0.0), (0.5, 1e-3), (1.0, 1e6)):
        a = logistic._share(last, z, q)
        assert 0 < a < 1
        assert q or a == pytest.approx(expit(-z), rel=1e-9, abs=2e-15)
