"""The scale of H0 is that of what is new in the newest pair (docs/theory.md, section 31)."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.directions import quasi_newton
from errorfeedback.directions.quasi_newton import PLAIN, Pairs, Secants

D = 12


def known_of(pairs):
    known = Secants()
    for s, y in pairs:
        known = known.joined(s, y, 20)
    return known


def new_part(pairs):
    """r, by least squares over the vectors themselves."""
    *older, (_, y) = pairs
    if not older:
        return y
    Y = np.array([each for _, each in older]).T
    return y - Y @ np.linalg.lstsq(Y, y, rcond=None)[0]


def curved(seed, count):
    """Pairs of a quadratic function."""
    rng = np.random.default_rng(seed)
    A, steps = rng.standard_normal((D, D)), rng.standard_normal((count, D)) * 10.0 ** rng.uniform(-3, 0, (count, 1))
    return [(s, A.T @ (A @ s)) for s in steps]


@pytest.mark.parametrize("seed", range(20))
def test_the_length_is_that_of_the_part_that_no_older_pair_has(seed):
    pairs = curved(seed, 1 + seed % 6)
    (s, y), r = pairs[-1], new_part(pairs)
    expected = np.clip(s @ r / (r @ r), s @ y / (y @ y), s @ s / (s @ y)) if s @ r > 0 else s @ y / (y @ y)
    np.testing.assert_allclose(known_of(pairs).new_length(), expected, rtol=1e-6)


@pytest.mark.parametrize("count", [1, 2, 5, 12])
def test_the_kernel_is_gram_and_schmidt_on_the_vectors(count):
    rng = np.random.default_rng(count)
    vectors, s = rng.standard_normal((count, D)), rng.standard_normal(D)
    vectors[-2:-1] = vectors[-3:-2] + 1e-5 * vectors[-2:-1] if count == 5 else vectors[-2:-1]  # nearly alike
    vectors /= np.linalg.norm(vectors, axis=1)[:, None]
    basis = []
    for v in vectors[-2::-1] if count > 1 else ():
        left = v - sum((b @ v) * b for b in basis)
        if left @ left > 1e-6:
            basis.append(left / np.linalg.norm(left))
    r = vectors[-1] - sum((b @ vectors[-1]) * b for b in basis)
    assert len(basis) == (3 if count == 5 else count - 1)
    made = quasi_newton._unlike(vectors @ vectors.T, vectors @ s)
    np.testing.assert_allclose(made, (r @ r, s @ r), rtol=1e-8)
    np.testing.assert_allclose(quasi_newton._unlike.py_func(vectors @ vectors.T, vectors @ s), made, rtol=1e-12)


def test_it_is_neither_below_the_short_step_of_barzilai_and_borwein_nor_above_the_long_one():
    seen = set()
    for seed in range(200):
        pairs = curved(seed, 4)
        s, y = pairs[-1]
        low, high, made = s @ y / (y @ y), s @ s / (s @ y), known_of(pairs).new_length()
        assert low * (1 - 1e-12) <= made <= high * (1 + 1e-12)
        seen.add("low" if made < low * 1.0001 else "high" if made > high * 0.9999 else "between")
    assert "between" in seen
    assert seen & {"low", "high"}


@pytest.mark.parametrize("seed", range(10))
def test_lemma_the_length_is_of_the_curvatures_where_no_pair_has_been(seed):
    """Curvatures of 1e4 to 1e6 that older pairs know, 1 to 4 elsewhere, and a step with a small part along the former."""
    rng = np.random.default_rng(seed)
    U, known, rest = np.linalg.qr(rng.standard_normal((D, D)))[0], 10.0 ** rng.uniform(4, 6, 4), rng.uniform(1, 4, D - 4)
    A, steep, flat = (U * np.concatenate([known, rest])) @ U.T, U[:, :4], U[:, 4:]
    p, e = flat @ rng.standard_normal(D - 4), steep @ (30 * rng.standard_normal(4) / known)
    older = [steep @ rng.standard_normal(4) for _ in range(4)]
    pairs = [(s, A @ s) for s in (*older, p + e)]
    made, (s, y) = known_of(pairs).new_length(), pairs[-1]
    assert 1 / rest.max() <= made <= 1 / rest.min()
    np.testing.assert_allclose(made, p @ A @ p / (p @ A @ A @ p), rtol=1e-6)  # e changes nothing
    assert s @ y / (y @ y) < 1 / rest.max()


@pytest.mark.parametrize("digits", [3, 4])
def test_what_a_rounded_step_has_across_a_valley_does_not_shorten_the_steps_along_it(digits):
    """Curvatures 1e4 and 1. The step along the valley has an error of 10^-digits across, whose gradient is most of y."""
    A, across, along = np.diag([1e4, 1.0]), np.array([1.0, 0.0]), np.array([10.0**-digits, 1.0])
    pairs = [(across, A @ across), (along, A @ along)]
    assert known_of(pairs).new_length() == pytest.approx(1.0, rel=0.011)
    s, y = pairs[-1]
    assert s @ y / (y @ y) < {3: 0.011, 4: 0.51}[digits]  # what it would be otherwise


def test_a_pair_that_says_nothing_new_has_the_length_of_its_own():
    ((s, y),) = curved(3, 1)
    twice = known_of([(s, y), (2 * s, 2 * y)])
    assert twice.new_length() == pytest.approx(s @ y / (y @ y))
    assert known_of([(s, y)]).new_length() == pytest.approx(s @ y / (y @ y))


def test_steps_that_were_refused_and_metrics_of_their_own_keep_the_length_of_the_whole_pair():
    class Half(quasi_newton.Plain):
        new_length = quasi_newton.Metric.new_length

        def solve(self, v):
            return v / 2

    pairs = curved(0, 2)
    (s, y), (t, z) = pairs
    for metric, expected in ((PLAIN, known_of(pairs).new_length()), (Half(), 2 * (t @ z) / (z @ z))):
        begun = Pairs(np.zeros(D), np.zeros(D)).arrived(s, y, metric, 5)
        assert begun.arrived(s + t, y + z, metric, 5).scale == pytest.approx(expected, rel=1e-9)
    begun = Pairs(np.zeros(D), np.zeros(D)).arrived(s, y, PLAIN, 5)
    assert begun.refused(s + t, y + z, PLAIN, 5).scale == pytest.approx((t @ z) / (z @ z))
    assert expected != pytest.approx((t @ z) / (z @ z), rel=0.05)


def test_few_bits_need_no_more_rounds_in_a_valley_than_it_takes_to_see_it(monkeypatch):
    """Least squares of a curvature of 1e5 and some of 1, told in 16 bits: rounds to a gap of 1e-8, with r and with y."""
    rng = np.random.default_rng(0)
    A = np.vstack([rng.standard_normal((40, 8)), 300 * rng.standard_normal((1, 8)).repeat(2, axis=0)])
    problem = ef.least_squares(A, A @ rng.standard_normal(8) + 0.1 * rng.standard_normal(42), clients=2)
    method = ef.EF21(ef.FittedAnswer(least=16), "compressed")

    def rounds():
        run = ef.solve(problem, method, ef.Armijo(), direction=ef.LBFGS(), downlink=ef.FittedStep(), rounds=80, every=1)
        f, least = run.history["f"], np.linalg.lstsq(A, problem.target, rcond=None)[1][0] / 42
        return int(np.flatnonzero(f - least <= 1e-8 * (f[0] - least))[0])

    new = rounds()
    monkeypatch.setattr(quasi_newton.Plain, "new_length", quasi_newton.Metric.new_length)
    assert new <= 0.8 * rounds()
