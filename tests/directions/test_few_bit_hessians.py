"""Few-bit Hessians on the server: the damping is as large as their errors and not much larger, and they are asked for when
that pays.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp, inf

import numpy as np
import pytest
import reference

import errorfeedback as ef
from errorfeedback.clients.bending import Bending
from errorfeedback.core import Point, Round
from errorfeedback.directions import few_bit_hessians
from errorfeedback.directions.base import Asking, Hessians
from errorfeedback.directions.few_bit_hessians import noise
from errorfeedback.sparsity.pairs import pairs_of, symmetric


def instance(kind, seed):
    """Rows as users have them: dense or sparse, many clients or few, columns of one size after scaling."""
    rng = np.random.default_rng(seed)
    n, d, m, fill = {"dense": (20, 40, 30, 1.0), "sparse": (100, 80, 8, 0.1), "few clients": (3, 60, 50, 0.5)}[kind]
    A = rng.standard_normal((n * m, d)) * (rng.random((n * m, d)) < fill)
    A[np.arange(n * m), rng.integers(0, d, n * m)] = 1.0
    return ef.scaled(ef.logistic(A, np.where(rng.random(n * m) < 0.5, 1, -1), clients=n))


def error_and_lambda(problem, compressor, x):
    """The largest eigenvalue of what is missing from the mean Hessian, in units, and the damping."""
    bending, pairs = Bending(problem, Asking(compressor)), pairs_of(problem.support)
    message = bending.message(Point(shared=x), Round(0, 0))
    truth = np.empty(pairs.size)
    problem.hessians(Point(shared=x), truth)
    missing = pairs.scatter(truth - bending.estimate.values) / problem.n
    error = np.abs(np.linalg.eigvalsh(symmetric(missing, problem.d))).max()
    return error, noise(told(problem, message.telemetry[:, 0]))


def told(problem, missing):
    """Hessians of which that is missing, and nothing else is said."""
    d = problem.d
    return Hessians(np.zeros(d * (d + 1) // 2), missing, np.ones(d), np.zeros(d), problem.support, problem.support)


KINDS = ("dense", "sparse", "few clients")


def ratios(kind, compressor):
    """Errors in units of lambda, at the start and away from it."""
    for seed in range(4):
        problem = instance(kind, seed)
        for far in (0.0, 0.3):
            x = far * np.random.default_rng(seed).standard_normal(problem.d)
            error, lam = error_and_lambda(problem, compressor, x)
            yield error / lam


@pytest.mark.parametrize("compressor", [ef.PowersOfTwo(4), ef.Uniform(4), ef.SmallFloat(2, 1)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_lambda_is_the_size_of_the_errors(kind, compressor):
    """The bound is for independent errors. Diagonal entries are alike and are rounded alike, so a few are above it."""
    found = sorted(ratios(kind, compressor))
    assert 0.8 <= np.median(found) <= 1.1
    assert 0.25 <= found[0] <= found[-1] <= 1.5


@pytest.mark.parametrize("seed", range(3))
def test_lambda_is_above_random_errors_and_not_four_times_them(seed):
    """Errors of every client's entries drawn by themselves."""
    rng, problem = np.random.default_rng(seed), instance("sparse", seed)
    pairs = pairs_of(problem.support)
    sizes = 10.0 ** rng.uniform(-1, 1, problem.n)
    mean = pairs.scatter(pairs.repeat(sizes) * rng.choice([-1.0, 1.0], pairs.size)) / problem.n
    error, lam = np.abs(np.linalg.eigvalsh(symmetric(mean, problem.d))).max(), noise(told(problem, sizes))
    assert error <= 1.05 * lam <= 4 * error


@pytest.mark.parametrize("wrong", [1.0, 4.0])
def test_another_constant_would_not_do(wrong, monkeypatch):
    """Negative control: the factor 2 is the theorem's, and near the edge."""
    monkeypatch.setattr(few_bit_hessians, "NOISE", wrong)
    for kind in KINDS:
        assert not 0.8 <= np.median(list(ratios(kind, ef.PowersOfTwo(4)))) <= 1.1


def bent_by(matrix, missing, *, l2=0.0, units=None, direction=None):
    """The memory after one exchange with a single client that owns everything."""
    d = len(matrix)
    problem = ef.least_squares(np.eye(d), np.ones(d), clients=1)
    direction = ef.Curvature() if direction is None else direction
    units = np.ones(d) if units is None else units
    told = matrix * np.outer(units, units)
    answer = Hessians(told[np.triu_indices(d)], np.array([missing]), units, np.full(d, l2), problem.support, problem.support)
    return direction, direction.bent(direction.start(np.zeros(d)), answer)


def metric_of(direction, state, d):
    columns = []
    for e in np.eye(d):
        made, _ = direction(state, np.zeros(d), e)
        columns.append(made)
    return np.column_stack(columns)


@pytest.mark.parametrize("scaled", [False, True])
def test_h0_is_the_inverse_of_the_damped_mean(scaled):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((9, 5))
    matrix, units = A.T @ A, 10.0 ** rng.uniform(-1, 1, 5) if scaled else None
    direction, state = bent_by(matrix, 0.01, l2=0.3, units=units)
    u = np.ones(5) if units is None else units
    lam = 2 * np.sqrt(5 * 0.01**2)
    expected = np.linalg.inv(matrix + 0.3 * np.eye(5) + lam * np.diag(u**-2.0))
    np.testing.assert_allclose(metric_of(direction, state, 5), expected, rtol=1e-9, atol=1e-12)


def test_negative_eigenvalues_are_noise_and_are_raised_to_it():
    direction, state = bent_by(np.diag([-5.0, 1e-9, 2.0]), 0.1)
    lam = 2 * np.sqrt(3 * 0.1**2)
    np.testing.assert_allclose(
        np.linalg.eigvalsh(metric_of(direction, state, 3)), [1 / (2 + lam), 1 / lam, 1 / lam], rtol=1e-6
    )
    direction, state = bent_by(np.diag([-5.0, 1e-20, 2.0]), 0.0)
    np.testing.assert_allclose(np.linalg.eigvalsh(metric_of(direction, state, 3)), [0.5, 5e11, 5e11], rtol=1e-6)
    direction, state = bent_by(np.diag([-5.0, 1e-20, 2.0]), 0.0, direction=ef.Curvature(believed=2.0**-20))
    np.testing.assert_allclose(np.linalg.eigvalsh(metric_of(direction, state, 3)), [0.5, 2.0**19, 2.0**19], rtol=1e-6)


@pytest.mark.parametrize("matrix", [np.zeros((3, 3)), -np.eye(3), np.full((3, 3), np.nan), np.full((3, 3), np.inf)])
def test_hessians_that_say_nothing_are_left_out(matrix):
    direction, state = bent_by(matrix, 0.0)
    made, state = direction(state, np.zeros(3), np.array([1.0, 2.0, 3.0]))
    assert made.tolist() == [1.0, 2.0, 3.0]
    assert direction.length(state) is None


def test_hessians_at_a_refused_point_wait_for_an_accepted_one():
    direction, state = bent_by(np.diag([1.0, 2.0, 4.0]), 0.0, direction=ef.Curvature(price=0.5))
    g = np.array([1.0, 1.0, 1.0])
    made, state = direction(state, np.zeros(3), g)
    np.testing.assert_allclose(made, [1.0, 0.5, 0.25])
    support = ef.least_squares(np.eye(3), np.ones(3), clients=1).support
    there = np.diag([3.0, 6.0, 12.0])[np.triu_indices(3)]  # what is missing: four times the curvature
    state = direction.bent(state, Hessians(there, np.zeros(1), np.ones(3), np.zeros(3), support, support))
    made, state = direction.refused(state, -0.5 * made, g - np.array([0.5, 0.5, 0.5]))
    np.testing.assert_allclose(made, [1.0, 0.5, 0.25])
    made, state = direction(state, np.full(3, 0.1), g)
    np.testing.assert_allclose(made, [0.25, 0.125, 0.0625])
    made, _ = direction(state, np.full(3, 0.1), g)  # everybody stands
    np.testing.assert_allclose(made, [0.25 / 4, 0.125 / 4, 0.0625 / 4])


@pytest.mark.parametrize(("price", "kept"), [(0.5, 0), (0.51, 2), (30.0, 2)])
def test_the_newest_two_pairs_outlive_new_hessians_unless_these_come_in_every_round(price, kept):
    """H is the textbook's, from the new H0 and these pairs."""
    rng, direction = np.random.default_rng(0), ef.Curvature(price=price)
    _, state = bent_by(np.eye(4), 0.0, direction=direction)
    x, g, pairs = np.zeros(4), rng.standard_normal(4), []
    _, state = direction(state, x, g)
    for _ in range(4):
        s = rng.standard_normal(4)
        y = s * rng.uniform(0.5, 2.0, 4)
        x, g = x + s, g + y
        pairs.append((s, y))
        if len(pairs) == 4:  # Hessians come with it
            support = ef.least_squares(np.eye(4), np.ones(4), clients=1).support
            told = 2.0 * np.eye(4)[np.triu_indices(4)]
            state = direction.bent(state, Hessians(told, np.zeros(1), np.ones(4), np.zeros(4), support, support))
        made, state = direction(state, x, g)
    expected = reference.bfgs(pairs[4 - kept :], np.eye(4) / 3) @ g
    np.testing.assert_allclose(made, expected, rtol=1e-12)


@pytest.mark.parametrize(("error", "stays"), [(0.0, True), (0.97, True), (1.03, False)])
def test_a_pair_that_is_noise_to_new_hessians_is_left_out(error, stays):
    """y = B s + e, e along an eigenvector of 1e-6 that s has no part in: y'H y = s'B s + 1e6 e^2 may be 1,000 times s'y."""
    direction = ef.Curvature(price=30.0)
    _, state = bent_by(np.eye(2), 0.0, direction=direction)
    s, y = np.array([1.0, 0.0]), np.array([1.0, error * np.sqrt(999e-6)])
    _, state = direction(state, np.zeros(2), -s)
    support = ef.least_squares(np.eye(2), np.ones(2), clients=1).support
    told = (np.diag([1.0, 1e-6]) - np.eye(2))[np.triu_indices(2)]
    state = direction.bent(state, Hessians(told, np.zeros(1), np.ones(2), np.zeros(2), support, support))
    made, _ = direction(state, s, y - s)
    expected = reference.bfgs([(s, y)] if stays else [], np.diag([1.0, 1e6])) @ (y - s)
    np.testing.assert_allclose(made, expected, rtol=1e-6, atol=1e-6)


def test_quadratics_above_are_told_where_progress_is_slow_and_nowhere_else():
    """Not at the start, not in every round, and as soon as they have cost as much as the rounds and three points or more, up
    to eight, say how slow it is."""
    x, stalled = np.ones(1), [1.0] * 8
    for price, points, wait in ((0.1, 3, 3), (2.0, 3, 3), (4.5, 5, 5), (7.1, 8, 8), (30.0, 8, 30)):
        direction = ef.Curvature(price=price, above=True)
        assert not direction.asks(direction.start(x), None)
        assert direction.hessians.above

        def asks(points, t, direction=direction, **more):
            log = tuple((t - points + k, value) for k, value in enumerate(stalled[:points]))
            return direction.asks(replace(direction.start(x), t=t, decrements=log, **more), 1.0)

        assert asks(points, wait)
        assert not asks(points - 1, 100)
        if price > points:
            assert not asks(points, wait - 1)
        bent = bent_by(np.eye(1), 0.0)[1].newest
        patience = int(np.ceil(2 * price))
        assert asks(3, patience + 3, metric=bent, exchanges=1, since=3)
        assert not asks(3, patience + 2, metric=bent, exchanges=1, since=3)


def test_how_slow_it_is_is_what_the_last_points_say():
    """Five points where they cost 4.5 rounds: that it was fast before counts no more."""
    direction, log = ef.Curvature(price=4.5, above=True), [*falling(4.0, 3), *([1e-5] * 5)]
    state = replace(direction.start(np.ones(1)), t=8, decrements=tuple(enumerate(log)))
    assert direction.asks(state, 1e-2)
    assert not direction.asks(replace(state, decrements=tuple(enumerate(log[:-1]))), 1e-2)


def test_standing_shortens_the_step_also_where_hessians_come_in_every_round():
    direction, state = bent_by(np.eye(2), 0.0, direction=ef.Curvature(price=0.0))
    g, lengths = np.ones(2), []
    support = ef.least_squares(np.eye(2), np.ones(2), clients=1).support
    for _ in range(4):
        made, state = direction(state, np.zeros(2), g)
        lengths.append(made[0])
        state = direction.bent(state, Hessians(np.zeros(3), np.zeros(1), np.ones(2), np.zeros(2), support, support))
    np.testing.assert_allclose(lengths, 0.25 ** np.arange(4))


def after(decrements, price, *, tolerance=1e-5, rounds=1000, since=0, bent=False, exchanges=0):
    """Whether it asks in the next round, where g'Hg / 2 was so large in the last rounds."""
    direction = ef.Curvature(price=price, tolerance=tolerance)
    begun = bent_by(np.eye(1), 0.0)[1].newest if bent else None
    log = tuple((rounds - len(decrements) + k, decrement) for k, decrement in enumerate(decrements))
    state = replace(direction.start(np.zeros(1)), t=rounds, since=since, decrements=log, metric=begun, exchanges=exchanges)
    return lambda gained: direction.asks(state, gained)


def falling(rate, rounds=8, first=1.0):
    return [first * exp(-rate * t) for t in range(rounds)]


def test_the_price_decides_whether_to_ask_at_the_start_or_in_every_round():
    begun = {price: ef.Curvature(price=price) for price in (0.0, 0.5, 0.51, 2.0, 2.1, inf)}
    start = {price: each.asks(each.start(np.zeros(1)), None) for price, each in begun.items()}
    assert start == {0.0: True, 0.5: True, 0.51: True, 2.0: True, 2.1: False, inf: False}
    assert after([1.0], 0.5)(1.0)
    assert not after([1.0], 0.51)(1.0)


def test_late_hessians_are_asked_for_where_the_rounds_that_are_left_cost_more():
    """To 1e-5 of what was gained there are ln(e^-0.7 / 1e-5) / 0.1 = 108.1 rounds to go at this rate: 1.5 x 68.1 + 6."""
    assert after(falling(0.1), 67.9)(1.0)
    assert not after(falling(0.1), 68.3)(1.0)
    assert after(falling(0.1), 83.3)(0.1)  # a tenth of it takes ln(10) / 0.1 rounds more
    assert not after(falling(0.1), 83.7)(0.1)
    assert not after(falling(0.1), 67.9, tolerance=2e-5)(1.0)
    assert not after(falling(0.1), 10)(1e6)  # there already
    assert not after(falling(2.0, first=1e3), 10)(1.0)  # fast enough
    assert after([1.0] * 8, 900)(1.0)  # it does not fall at all


def test_late_hessians_wait_until_their_price_was_paid_and_the_rate_is_known():
    assert after(falling(0.1), 30, rounds=30)(1.0)
    assert not after(falling(0.1), 30, rounds=29)(1.0)
    assert not after(falling(0.1), 30, rounds=49, since=20)(1.0)
    assert not after(falling(0.1, rounds=7), 10)(1.0)
    assert after(falling(0.1, rounds=3), 10, bent=True)(1.0)
    assert not after(falling(0.1, rounds=2), 10, bent=True)(1.0)
    assert not after(falling(0.1), inf)(1.0)
    assert not after(falling(0.1), 10)(None)
    assert not after(falling(0.1), 10)(0.0)


def test_waits_double_with_every_exchange_so_that_pairs_have_their_time():
    stalled = [1.0] * 8
    for exchanges, wait in ((0, 30), (1, 60), (2, 120)):
        assert after(stalled, 30, rounds=10 + wait, since=10, exchanges=exchanges)(1.0)
        assert not after(stalled, 30, rounds=9 + wait, since=10, exchanges=exchanges)(1.0)


def test_hessians_in_every_round_end_after_thirty_of_them_and_come_back_where_nothing_falls():
    assert after([1.0], 0.5, exchanges=29)(1.0)
    assert not after([1.0], 0.5, exchanges=30, since=999)(1.0)
    for exchanges, wait in ((30, 6), (31, 12), (32, 24)):
        assert after([1.0] * 8, 0.2, since=1000 - wait, exchanges=exchanges, bent=True)(1.0)
        assert not after([1.0] * 8, 0.2, since=1001 - wait, exchanges=exchanges, bent=True)(1.0)


@pytest.mark.parametrize("above", [False, True])
def test_clients_tell_what_they_are_asked_for(above):
    problem, x = instance("few clients", 0), np.full(60, 0.7)
    bending, truth = Bending(problem, Asking(ef.Identity(), above=above)), np.empty(pairs_of(problem.support).size)
    bending.message(Point(shared=x), Round(0, 0))
    problem.hessians(Point(shared=x), truth, above)
    np.testing.assert_allclose(bending.estimate.values, truth, rtol=1e-12)
    problem.hessians(Point(shared=x), truth, not above)
    assert np.abs(bending.estimate.values - truth).max() > 1e-2


def test_clients_whose_hessians_are_not_finite_send_nothing_and_remember_nothing():
    problem = ef.logistic(np.eye(4), [1, -1, 1, -1], clients=2)
    bending = Bending(problem, Asking(ef.PowersOfTwo(4)))
    bending.message(Point(shared=np.zeros(4)), Round(0, 0))
    before = bending.estimate.values.copy()
    assert before.any()
    message = bending.message(Point(shared=np.full(4, np.nan)), Round(1, 0))
    assert np.array_equal(bending.estimate.values, before)
    assert not message.lifted().any()
    assert np.isfinite(message.telemetry).all()


def test_hessians_that_are_nothing_say_nothing():
    """Targets far from 0: no row of a Huber loss curves, and the penalty alone is no metric."""
    _, state = bent_by(np.zeros((2, 2)), 0.0, l2=0.5)
    assert state.newest is None
    rng = np.random.default_rng(0)
    A, clients = rng.standard_normal((240, 6)), np.repeat(np.arange(12), 20)
    b = A @ rng.standard_normal(6) + rng.standard_normal(240)
    far = ef.EF21Regressor(loss="huber", l2=1e-2, max_iter=400, own_models=False).fit(A, b + 100, groups=clients)
    near = ef.EF21Regressor(loss="huber", l2=1e-2, max_iter=400, own_models=False).fit(A, b, groups=clients)
    assert far.loss_ == pytest.approx(near.loss_, rel=1e-3)
