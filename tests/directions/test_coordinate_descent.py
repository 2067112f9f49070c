"""The lowest point of a model around kinks: optimal, that of the literal reference, and never above where it began."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import reference

from errorfeedback.directions import coordinate_descent
from errorfeedback.directions.coordinate_descent import DensePart, Entries, minimum
from errorfeedback.directions.few_bit_hessians import Damped
from errorfeedback.directions.quasi_newton import PLAIN, Pairs
from errorfeedback.problems.proximal import ElasticNet

D, MEMORY = 12, 5


def damped(rng, spread=2.0):
    units, vectors = 10.0 ** rng.uniform(-0.5, 0.5, D), np.linalg.qr(rng.standard_normal((D, D)))[0]
    return Damped(units, 10.0 ** rng.uniform(-spread, spread, D), vectors)


def made(seed, plain, spread=2.0):
    """Pairs of a random quadratic, with noise, at a point with zeros; the metric, l1 and the dense B."""
    rng = np.random.default_rng(seed)
    metric = PLAIN if plain else damped(rng, spread)
    A = rng.standard_normal((2 * D, D)) * 10.0 ** rng.uniform(-spread / 2, 1, D)
    x = rng.standard_normal(D) * (rng.random(D) < 0.6)
    pairs = Pairs(x)
    for _ in range(8):
        g = A.T @ (A @ x) + rng.standard_normal(D)
        pairs = pairs.arrived(x, g * (1 + 0.05 * rng.standard_normal(D)), metric, MEMORY)
        x = x + rng.standard_normal(D) * (rng.random(D) < 0.6)
        x[rng.random(D) < 0.3] = 0.0
    pairs = replace(pairs, l1=np.zeros(D))
    model = pairs.curved(metric)
    B = np.column_stack([model.times(e) for e in np.eye(D)])
    l1 = np.abs(pairs.g) * 10.0 ** rng.uniform(-2, 0.5, D)
    return pairs, metric, model, (B + B.T) / 2, l1


def rise(pairs, B, l1, y):
    s = y - pairs.x
    return pairs.g @ s + s @ B @ s / 2 + l1 @ (np.abs(y) - np.abs(pairs.x))


each_model = pytest.mark.parametrize("plain", [True, False])
seeds = pytest.mark.parametrize("seed", range(12))


@seeds
@each_model
def test_the_minimum_is_optimal(seed, plain, monkeypatch):
    """slope_j = -l1_j sign(y_j) where y_j is not 0, and |slope_j| <= l1_j where it is."""
    monkeypatch.setattr(coordinate_descent, "LEFT", 0.0)
    pairs, _, model, B, l1 = made(seed, plain)
    y = minimum(pairs.x, pairs.g, l1, model)
    slopes = pairs.g + B @ (y - pairs.x)
    near = 1e-7 * (np.abs(pairs.g).max() + np.abs(B).max() * np.abs(y - pairs.x).max())
    assert np.abs(slopes + l1 * np.sign(y))[y != 0].max(initial=0.0) <= near
    assert (np.abs(slopes) <= l1 + near)[y == 0].all()


@seeds
@each_model
def test_the_minimum_is_the_references(seed, plain, monkeypatch):
    monkeypatch.setattr(coordinate_descent, "LEFT", 0.0)
    pairs, _, model, B, l1 = made(seed, plain, spread=1.0)
    y, expected = minimum(pairs.x, pairs.g, l1, model), reference.lowest(pairs.x, pairs.g, B, l1)
    np.testing.assert_allclose(y, expected, atol=1e-6 * max(np.abs(expected).max(), 1.0))
    assert np.array_equal(y == 0, expected == 0)


def test_some_end_at_zero_and_some_do_not():
    """What the tests above are about."""
    counts = [(minimum(p.x, p.g, l1, model) == 0).sum() for p, _, model, _, l1 in (made(s, s % 2 == 0) for s in range(12))]
    assert sum(0 < count < D for count in counts) >= 10


@pytest.mark.parametrize("share", [0.95, 1.05])
def test_another_l1_has_another_minimum(share):
    """Negative control of both."""
    differing = 0
    for seed in range(12):
        pairs, _, model, B, l1 = made(seed, plain=False, spread=1.0)
        y, expected = minimum(pairs.x, pairs.g, share * l1, model), reference.lowest(pairs.x, pairs.g, B, l1)
        differing += np.abs(y - expected).max() > 1e-4 * max(np.abs(expected).max(), 1.0)
    assert differing >= 11


@seeds
@each_model
def test_what_is_left_is_a_small_share_of_the_fall(seed, plain):
    pairs, _, model, B, l1 = made(seed, plain)
    best = rise(pairs, B, l1, reference.lowest(pairs.x, pairs.g, B, l1))
    fall = rise(pairs, B, l1, minimum(pairs.x, pairs.g, l1, model))
    assert fall <= (1 - 1e-2) * best < 0


@seeds
@each_model
def test_the_promise_is_the_fall_and_at_least_half_the_curvature(seed, plain):
    """<g, s> + R(x + s) - R(x) <= -s'Bs/2, of which the rest is how far the minimum of the model is below."""
    pairs, metric, _, B, l1 = made(seed, plain)
    direction, aimed = Pairs(pairs.x, pairs.g, pairs.known, pairs.scale, l1).aimed(metric)
    s = -direction
    change = pairs.g @ s + l1 @ (np.abs(pairs.x + s) - np.abs(pairs.x))
    assert change <= -s @ B @ s / 2 < 0
    assert aimed.promised.descent == pytest.approx(-change, rel=1e-9)
    assert aimed.promised.gap == pytest.approx(-rise(pairs, B, l1, pairs.x + s), rel=1e-6)


def test_shorter_steps_promise_their_share_by_convexity():
    for seed in range(12):
        pairs, metric, _, _, l1 = made(seed, seed % 2 == 0)
        direction, aimed = Pairs(pairs.x, pairs.g, pairs.known, pairs.scale, l1).aimed(metric)
        for gamma in (0.9, 0.5, 0.1, 1e-3):
            change = ElasticNet(l1).rise(pairs.x, -gamma * direction, pairs.g)
            assert change <= -gamma * aimed.promised.descent * (1 - 1e-9)


def test_where_nothing_is_known_the_direction_is_the_shortest_subgradient():
    x, g, l1 = np.array([0.0, 0.0, 2.0, -1.0]), np.array([0.5, -3.0, 1.0, 1.0]), np.ones(4)
    direction, aimed = Pairs(x, g, l1=l1).aimed(PLAIN)
    assert direction.tolist() == [0.0, -2.0, 2.0, 0.0]
    assert aimed.promised.descent == 8.0


def test_without_pairs_the_minimum_is_the_proximal_gradient_step():
    rng = np.random.default_rng(0)
    x, g, l1 = rng.standard_normal(D) * (rng.random(D) < 0.5), rng.standard_normal(D), rng.random(D)
    direction, _ = Pairs(x, g, scale=0.3, l1=l1).aimed(PLAIN)
    step = x - 0.3 * g
    ElasticNet(l1).step(step, 0.3)
    np.testing.assert_allclose(x - direction, step, atol=1e-15)


def test_a_wanted_zero_is_exact():
    """x_j - direction_j is 0 to the last bit, so that a downlink can tell."""
    for seed in range(12):
        pairs, metric, model, _, l1 = made(seed, seed % 2 == 0)
        y = minimum(pairs.x, pairs.g, l1, model)
        direction, _ = Pairs(pairs.x, pairs.g, pairs.known, pairs.scale, l1).aimed(metric)
        assert ((pairs.x - direction)[y == 0] == 0).all()


def test_a_part_of_the_model_is_the_models():
    """Low rank or whole, and solved on some of its features."""
    rng = np.random.default_rng(0)
    for plain in (True, False):
        _, _, model, B, _ = made(3, plain)
        some, inside = np.array([0, 3, 4, 7, 11]), np.array([1, 2, 4])
        part, r = model.on(some, D), rng.standard_normal(5)
        assert isinstance(part, DensePart) is not plain
        own = B[np.ix_(some, some)]
        np.testing.assert_allclose(part.times(r), own @ r, rtol=1e-7, atol=1e-9 * np.abs(B).max())
        expected = np.linalg.solve(own[np.ix_(inside, inside)], r[inside])
        np.testing.assert_allclose(part.solved(inside, r[inside]), expected, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("seed", range(8))
def test_beside_kinks_the_model_stays_positive_definite_where_the_compact_form_does_not(seed):
    """A metric of condition 1e12, and pairs of another function: B is up to 1e12 times its smallest eigenvalue."""
    pairs, metric, model, B, l1 = made(seed, False, spread=6.0)
    scale = 1 / np.sqrt(np.diag(B))
    assert np.linalg.eigvalsh(B * np.outer(scale, scale)).min() > -1e-13
    np.testing.assert_allclose(model.forms([pairs.g]), [pairs.g @ B @ pairs.g], rtol=1e-9)
    direction, aimed = replace(pairs, l1=l1).aimed(metric)
    y = pairs.x - direction
    assert np.isfinite(direction).all()
    assert aimed.promised.gap >= 0
    assert rise(pairs, B, l1, y) <= 1e-9 * aimed.promised.descent


@pytest.mark.parametrize("seed", [1, 5, 6, 14, 22, 25])
def test_in_long_valleys_the_minimum_is_found_from_face_to_face(seed, monkeypatch):
    """At condition 1e12 two fifths of the fall or more; with single Newton steps between sweeps a hundredth."""
    pairs, _, model, B, _ = made(seed, False, spread=6.0)
    l1 = 1e-2 * np.abs(pairs.g)
    found = rise(pairs, B, l1, minimum(pairs.x, pairs.g, l1, model))
    for name, many in (("FACES", 50), ("TURNS", 1000), ("LEFT", 0.0)):
        monkeypatch.setattr(coordinate_descent, name, many)
    assert found <= 0.4 * rise(pairs, B, l1, minimum(pairs.x, pairs.g, l1, model)) < 0


def test_where_rounding_has_left_no_minimum_the_step_is_along_a_line():
    class Bent(Damped):
        def beside_kinks(self, model, d):
            return Entries(np.array([[1.0, 2.0], [2.0, 1.0]]))

    metric = Bent(np.ones(2), np.ones(2), np.eye(2))
    pairs = Pairs(np.zeros(2), np.array([1.0, -1.0]), scale=1.0, l1=np.full(2, 0.1))
    direction, aimed = pairs.aimed(metric)
    assert np.isfinite(direction).all()
    assert aimed.promised.descent >= 0
    assert aimed.promised.gap >= 0


def test_a_matrix_that_rounding_has_bent_downwards_moves_nothing_to_infinity():
    bent = DensePart(np.array([[1.0, 2.0], [2.0, 1.0]]))
    assert bent.solved(np.arange(2), np.ones(2)).tolist() == [0.0, 0.0]


def test_the_default_matrix_of_a_metric_is_the_whole_one():
    """As of Hessians that are kept apart, which are never added up."""
    metric, some = damped(np.random.default_rng(0)), np.array([1, 4, 9])
    by_units = super(Damped, metric).matrix(some, D)
    np.testing.assert_allclose(by_units, metric.matrix(some, D), rtol=1e-9, atol=1e-9)


def test_a_sweep_is_the_formula_of_its_file():
    """The twin in numpy: every y_j to its minimum in turn, as often as there are sweeps."""
    rng = np.random.default_rng(0)
    left, l1, g, y = rng.standard_normal((D, 3)), rng.random(D), rng.standard_normal(D), rng.standard_normal(D)
    B = 2.0 * np.eye(D) + left @ left.T
    expected = y.copy()
    for _ in range(coordinate_descent.SWEEPS):
        for j in range(D):
            aim = expected[j] - (g + B @ (expected - y))[j] / B[j, j]
            expected[j] = reference.shrunk(aim, l1[j] / B[j, j])
    s = expected - y
    fall = -(g @ s + s @ B @ s / 2 + l1 @ (np.abs(expected) - np.abs(y)))
    moved = y.copy()
    assert coordinate_descent.sweep(g, l1, 2.0, left, left, np.diag(B).copy(), moved) == pytest.approx(fall, rel=1e-9)
    np.testing.assert_allclose(moved, expected, atol=1e-12)
    np.testing.assert_allclose(coordinate_descent.product(2.0, left, left, s), B @ s, rtol=1e-9)
    np.testing.assert_allclose(coordinate_descent.spread(left, s[:3]), left @ s[:3], rtol=1e-9)
    middle, shares = coordinate_descent.narrowed(2.0, left, left, s)
    np.testing.assert_allclose(middle, 2.0 * np.eye(3) + left.T @ left, rtol=1e-9)
    np.testing.assert_allclose(shares, left.T @ s, rtol=1e-9)
    some = np.array([0, 2, 5, 7])
    np.testing.assert_allclose(
        coordinate_descent.solved_whole(B, some, s[some]), np.linalg.solve(B[np.ix_(some, some)], s[some]), rtol=1e-9
    )


@seeds
def test_a_newton_step_falls_by_what_it_says_and_stops_at_the_first_kink(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((D, D))
    B, l1, g, y = A @ A.T + np.eye(D), rng.random(D), 5 * rng.standard_normal(D), rng.standard_normal(D)
    moved = y.copy()
    fallen, whole = coordinate_descent._newton(DensePart(B), g, l1, moved)
    s = moved - y
    assert fallen == pytest.approx(-(g @ s + s @ B @ s / 2 + l1 @ (np.abs(moved) - np.abs(y))), rel=1e-9)
    assert (moved * y >= 0).all()
    assert (moved == 0).any() is np.bool_(not whole)
