"""BFGS matrices from pairs that errors have got into: positive definite, those of the textbook, and their inverses."""

from __future__ import annotations

import numpy as np
import pytest
import reference

import errorfeedback as ef
from errorfeedback.directions.few_bit_hessians import Damped
from errorfeedback.directions.quasi_newton import PLAIN, Pairs, Secants
from errorfeedback.sums import dot

D = 9
MEMORY = 6


def random_metric(rng):
    units, vectors = 10.0 ** rng.uniform(-1, 1, D), np.linalg.qr(rng.standard_normal((D, D)))[0]
    return Damped(units, 10.0 ** rng.uniform(-3, 2, D), vectors)


def dense(apply):
    return np.column_stack([apply(e) for e in np.eye(D)])


def noisy(rng, metric, noise, rounds=25):
    """The library's memory and the reference's after pairs of a random quadratic function, with errors in g."""
    A = rng.standard_normal((2 * D, D)) * 10.0 ** rng.uniform(-2, 1, D)
    x, literal = rng.standard_normal(D), reference.Secant(MEMORY)
    literal.metric = None if metric is PLAIN else dense(metric.solve)
    pairs = Pairs(x.copy())
    for t in range(rounds):
        x = x + rng.standard_normal(D) * 10.0 ** rng.uniform(-3, 0) if t else x
        g = A.T @ (A @ x)
        g += noise * np.linalg.norm(g) * rng.standard_normal(D)
        if t % 4 == 3:  # refused: the next pair is from where the last accepted one was
            pairs = pairs.learned(x, g, metric, MEMORY)
            literal.learn(x, g)
        else:
            pairs = pairs.arrived(x, g, metric, MEMORY)
            literal.accept(x, g)
    return pairs, literal


def matrix_of(pairs, metric):
    return dense(lambda e: Pairs(pairs.x, e, pairs.known, pairs.scale).towards(metric))


@pytest.mark.parametrize("noise", [0.0, 0.1, 3.0])
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_h_is_the_textbooks_and_positive_definite_whatever_the_errors_are(seed, plain, noise):
    rng = np.random.default_rng(seed)
    metric = PLAIN if plain else random_metric(rng)
    pairs, literal = noisy(rng, metric, noise)
    H, expected = matrix_of(pairs, metric), literal.H()
    assert len(pairs.known.s) == len(literal.pairs) <= MEMORY
    np.testing.assert_allclose(H, expected, atol=1e-8 * np.abs(expected).max())
    assert np.linalg.eigvalsh((H + H.T) / 2).min() > -1e-13 * np.abs(H).max()
    assert dot(pairs.g, pairs.towards(metric)) > 0
    np.testing.assert_allclose(pairs.towards(metric), expected @ pairs.g, atol=1e-8 * np.abs(expected).max())


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_the_quadratic_form_is_that_of_the_inverse(seed, plain, noise):
    rng = np.random.default_rng(seed)
    metric = PLAIN if plain else random_metric(rng)
    pairs, literal = noisy(rng, metric, noise)
    B, model = reference.direct_bfgs(literal.pairs, np.linalg.inv(literal.H0())), pairs.quadratic(metric)
    np.testing.assert_allclose(B @ literal.H(), np.eye(D), atol=1e-6 * np.linalg.cond(B) ** 0.5)
    vectors = list(rng.standard_normal((10, D)))
    assert model.forms(vectors) == pytest.approx([v @ B @ v for v in vectors], rel=1e-6)
    s, y = literal.pairs[-1]
    assert model.forms([s])[0] == pytest.approx(s @ y, rel=1e-4)  # the secant equation
    direction = pairs.towards(metric)
    assert model.along(direction) == pytest.approx(direction @ B @ direction, rel=1e-6 * np.linalg.cond(B) ** 0.5)
    alone, v = Pairs(pairs.x, pairs.g, None, 0.3), vectors[-1]
    inverse = np.linalg.inv(dense(metric.solve))
    assert alone.quadratic(metric).forms([v])[0] == pytest.approx(v @ inverse @ v / 0.3, rel=1e-9)
    assert Pairs(pairs.x).quadratic(metric) is None


def test_a_pair_that_does_not_curve_is_left_out():
    x, g = np.zeros(D), np.ones(D)
    begun = Pairs(x).arrived(x, g, PLAIN, MEMORY)
    step = np.full(D, 0.1)
    for change in (-step, 0 * step, np.full(D, np.nan), np.full(D, np.inf), np.tile([1.0, -1.0, 0.0], 3)):
        after = begun.learned(x + step, g + change, PLAIN, MEMORY)
        assert after.known is None
        assert after.scale is None
    assert begun.learned(x + step, g + 2 * step, PLAIN, MEMORY).scale == pytest.approx(0.5)


def test_the_same_point_again_forgets_all_pairs_and_goes_a_quarter_as_far():
    pairs, _ = noisy(np.random.default_rng(0), PLAIN, 0.1)
    again = pairs.arrived(pairs.x.copy(), np.ones(D), PLAIN, MEMORY)
    assert again.known is None
    assert again.scale == pairs.scale / 4
    np.testing.assert_allclose(again.towards(PLAIN), again.scale * np.ones(D))


def test_nothing_that_was_handed_in_is_changed():
    """x and g belong to the server."""
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((2, D))
    for direction in (ef.LBFGS(), ef.Curvature()):
        state = direction.start(x)
        for t in range(4):
            before = x.copy(), g.copy()
            made, state = (direction if t != 2 else direction.refused)(*((state, x, g)))
            made *= 7.0
            assert np.array_equal(before, (x, g))
            x, g = x + 0.1 * rng.standard_normal(D), g + rng.standard_normal(D)


def test_steps_of_single_precision_are_made_in_double_precision():
    x, g = np.zeros(D, dtype=np.float32), np.ones(D, dtype=np.float32)
    direction, state = ef.LBFGS(), ef.LBFGS().start(x)
    for t in range(3):
        made, state = direction(state, x + np.float32(t), g * (1 + t))
        assert made.dtype == np.float32
    assert state.known.s[0].dtype == np.float64


def test_inner_products_are_those_of_numpy():
    u, v = np.random.default_rng(0).standard_normal((2, 1001))
    assert dot(u, v) == pytest.approx(u @ v, rel=1e-12)
    assert np.isnan(dot(u, np.full(1001, np.nan)))
    assert not np.isfinite(dot(u, np.full(1001, np.inf)))


@pytest.mark.parametrize("memory", [1, 3, 20])
def test_the_tables_of_the_pairs_are_kept_up_to_date(memory):
    """A pair that comes and one that goes take one row and one column; no vector is copied."""
    rng, known = np.random.default_rng(0), Secants()
    for k in range(7):
        before = known
        known = known.joined(*rng.standard_normal((2, 11)), memory)
        assert len(known.s) == min(k + 1, memory)
        assert all(any(row is old for old in before.s) for row in known.s[:-1])
        S, Y = np.array(known.s), np.array(known.y)
        np.testing.assert_allclose(known.sy, S @ Y.T, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(known.ss, S @ S.T, rtol=1e-12)
        np.testing.assert_allclose(known.yy, Y @ Y.T, rtol=1e-12, atol=1e-14)


def test_everybody_may_stand_for_thousands_of_rounds():
    """A quarter of H0 at every standing ends at a least one, and not at 0, whose inverse is no number."""
    x, g = np.ones(3), np.arange(3.0)
    pairs = Pairs(np.zeros(3), np.zeros(3)).arrived(x, g, PLAIN, 5)
    for _ in range(3000):
        pairs = pairs.arrived(x, g, PLAIN, 5)
    assert pairs.scale > 0
    assert np.isfinite(pairs.quadratic(PLAIN).forms([g])).all()


@pytest.mark.parametrize(("times", "learns"), [(0.9e4, True), (1.1e4, False), (np.inf, False)])
def test_a_refused_point_far_off_teaches_nothing(times, learns):
    pairs = Pairs(np.zeros(3), np.ones(3))
    after = pairs.refused(np.ones(3), times * np.ones(3), PLAIN, 5)
    assert (after.scale is not None) is learns


@pytest.mark.parametrize("size", [1e-170, 1e-160])
def test_pairs_whose_products_have_lost_their_digits_say_nothing(size):
    """s'y and y'y are 0, or have a few bits left: the scale would be anything, or a division by 0."""
    rng = np.random.default_rng(0)
    s = rng.standard_normal(D)
    pairs = Pairs(np.zeros(D), np.zeros(D)).learned(size * s, size * s, PLAIN, MEMORY)
    assert pairs.known is None
    assert pairs.scale is None
    assert Pairs(np.zeros(D), np.zeros(D)).learned(1e-100 * s, 1e-100 * s, PLAIN, MEMORY).scale == pytest.approx(1.0)


def test_a_model_that_cannot_be_inverted_falls_back_to_its_first_matrix():
    nothing, v = (np.zeros(D),), np.arange(1.0, D + 1)
    degenerate = Pairs(np.zeros(D), v, Secants(nothing, nothing, np.zeros((1, 1)), np.zeros((1, 1))), scale=0.5)
    assert degenerate.quadratic(PLAIN).forms([v]) == pytest.approx([2.0 * v @ v])
