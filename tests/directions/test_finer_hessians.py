"""Hessians in more digits: asked for where lambda, which stands for the digits that are missing, is most of the curvature
along a step (docs/theory.md, section 15)."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.directions import few_bit_hessians
from errorfeedback.directions.base import Hessians
from errorfeedback.directions.few_bit_hessians import Damped

FEW, MORE = ef.PowersOfTwo(4), ef.Uniform(16)


def spread(d, noise, seed=0):
    """A matrix with eigenvalues from 1e-4 to 1, in units, and its metric with lambda = `noise`."""
    rng = np.random.default_rng(seed)
    vectors = np.linalg.qr(rng.standard_normal((d, d)))[0]
    units, values = 10.0 ** rng.uniform(-1, 1, d), np.geomspace(1e-4, 1, d)
    return units, vectors, values, Damped(units, values + noise, vectors, noise)


@pytest.mark.parametrize("noise", [1e-5, 1e-3, 0.1])
def test_doubt_is_by_how_much_less_a_step_promises_for_a_lambda_that_is_a_percent_larger(noise):
    """d log(g' (A + lambda)^-1 g) / d log(lambda), by differences."""
    units, vectors, values, metric = spread(6, noise)
    g = np.random.default_rng(1).standard_normal(6)

    def promise(lam):
        return (units * g) @ (vectors / (values + lam)) @ vectors.T @ (units * g)

    h = 1e-4
    slope = (np.log(promise(noise * (1 + h))) - np.log(promise(noise * (1 - h)))) / (2 * h)
    np.testing.assert_allclose(metric.doubt(metric.solve(g)), -slope, rtol=1e-6)


def test_there_is_no_doubt_without_a_step_or_without_lambda():
    metric = spread(4, 0.1)[-1]
    assert metric.doubt(np.zeros(4)) == 0.0
    assert replace(metric, noise=0.0).doubt(np.ones(4)) == 0.0


def doubting(doubt, finer_price, *, price=0.4, fine=False, since=1, exchanges=1, finer=MORE):
    """A direction after an exchange, half of ten rounds ago, and its memory where nothing falls."""
    direction = ef.Curvature(FEW, price=price, finer=finer, finer_price=finer_price if finer else inf)
    metric, log = spread(3, 0.1)[-1], tuple((t, 1.0) for t in range(2, 10))
    begun = replace(direction.start(np.zeros(3)), t=10, since=since, metric=metric, decrements=log)
    return direction, replace(begun, doubt=doubt, fine=fine, exchanges=exchanges)


def test_more_digits_are_asked_for_where_lambda_is_more_than_half_of_the_curvature():
    for doubt, more in ((0.49, False), (0.51, True)):
        direction, state = doubting(doubt, 1.0)
        assert direction.finely(state) is more
        assert direction.asks(state, 1.0)  # in every round, or at once
    direction, state = doubting(0.9, 1.0, finer=None)
    assert not direction.finely(state)


def test_they_are_asked_for_at_once_up_to_the_price_of_a_start_and_above_it_when_it_was_paid():
    assert doubting(0.9, 2.0, since=10)[0].asks(doubting(0.9, 2.0, since=10)[1], 1.0)
    for since, asks in ((6, False), (5, True)):  # 2.4 * 2 rounds
        direction, state = doubting(0.9, 2.4, since=since)
        assert direction.asks(state, 1.0) is asks


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"finer": MORE}, "finer_price = inf"),
        ({"finer": MORE, "finer_price": -1.0}, "finer_price = -1.0"),
        ({"finer": MORE, "finer_price": float("nan")}, "finer_price = nan"),
        ({"finer": 16, "finer_price": 1.0}, "finer = 16"),
        ({"finer_price": 1.0}, "without finer"),
    ],
)
def test_what_cannot_be_is_refused(given, says):
    with pytest.raises(ValueError, match=says):
        ef.Curvature(FEW, **given)


def test_once_they_have_come_it_is_their_price_that_counts():
    direction, state = doubting(0.0, 1.5, fine=True, since=8)
    assert direction.finely(state)
    assert not direction.asks(state, 1.0)  # 1.5 * 2 rounds have not gone by
    direction, state = doubting(0.0, 0.5, fine=True, since=9)
    assert direction.asks(state, 1.0)  # in every round


def test_what_they_leave_is_not_doubted_before_the_next_step():
    direction, state = doubting(0.9, 1.0, exchanges=7)
    support = ef.least_squares(np.eye(3), np.ones(3), clients=1).support
    told = Hessians(np.eye(3)[np.triu_indices(3)], np.array([0.01]), np.ones(3), np.zeros(3), support, support)
    after = direction.bent(state, told)
    assert after.fine
    assert after.doubt == 0.0
    assert after.exchanges == 1  # waits begin anew
    assert direction.bent(after, told).exchanges == 2
    _, next_ = direction(after, np.zeros(3), np.ones(3))
    lam = 2 * np.sqrt(3 * 0.01**2)
    np.testing.assert_allclose(next_.doubt, lam / (1 + lam))


def correlated(seed=0, n=10, m=60, d=12):
    """Logistic rows of features that nearly say the same: curvature from 1e-4 to 1."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n * m, d)) @ (np.linalg.qr(rng.standard_normal((d, d)))[0] * np.geomspace(1e-2, 1, d)) * 3
    y = np.where(A @ rng.standard_normal(d) * 10 + rng.logistic(size=n * m) > 0, 1, -1)
    return ef.scaled(ef.logistic(A, y, clients=n))


def trained(problem, finer, rounds=40):
    direction = ef.Curvature(FEW, price=0.4, finer=MORE if finer else None, finer_price=1.6 if finer else inf)
    return ef.solve(
        problem,
        ef.EF21(ef.FittedAnswer(least=16), "compressed"),
        ef.Armijo(),
        direction=direction,
        downlink=ef.FittedStep(least=16),
        prox=ef.ElasticNet(l2=1e-6),
        rounds=rounds,
        every=1,
    )


def test_valleys_that_few_bits_hide_are_found_and_every_bit_is_counted():
    problem = correlated()
    few, more = trained(problem, False), trained(problem, True)
    n, start = problem.n, few.history["f"][0]
    left = [run.history["f"][20] - more.history["f"].min() for run in (few, more)]
    assert left[1] <= 1e-5 * start <= left[0]
    pairs, told = 12 * 13 // 2, np.diff(more.history["curvature_bits"], prepend=0)
    sizes = {(bits * pairs + head) * n for bits in (4, 16) for head in range(32, 80)}
    assert set(told[told > 0].astype(int)) <= sizes
    assert (told > 12 * pairs * n).any()


def test_where_lambda_is_small_nothing_changes():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((600, 8))
    problem = ef.logistic(A, np.where(A[:, 0] + rng.logistic(size=600) > 0, 1, -1), clients=10)
    few, more = trained(problem, False, rounds=6), trained(problem, True, rounds=6)
    assert np.array_equal(few.x, more.x)
    assert np.array_equal(few.history["uplink_bits"], more.history["uplink_bits"])


@pytest.mark.parametrize("wrong", [0.48, 0.52])
def test_another_limit_would_be_noticed(wrong, monkeypatch):
    monkeypatch.setattr(few_bit_hessians, "MOSTLY", wrong)
    with pytest.raises(AssertionError):
        test_more_digits_are_asked_for_where_lambda_is_more_than_half_of_the_curvature()
