"""Every loss: its derivatives are derivatives, its curvature and floor are bounds, extremes are numbers, and scikit-learn's
`_loss` says the same where it has one.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn._loss.loss import HalfPoissonLoss, HuberLoss
from sklearn.metrics import mean_poisson_deviance

import errorfeedback as ef
from errorfeedback.problems import losses
from errorfeedback.problems.losses.base import ClassLoss, Loss
from errorfeedback.problems.losses.logistic import Logistic
from errorfeedback.registry import members

RNG = np.random.default_rng(0)
SIGNS = np.sign(RNG.standard_normal(400))
COUNTS = RNG.poisson(2.0, 400).astype(float)
REALS = 3 * RNG.standard_normal(400)
TARGETS = {"Logistic": SIGNS, "SquaredHinge": SIGNS, "Poisson": COUNTS, "Huber": REALS, "Squared": REALS}
LOSSES = {name: kind for name, kind in members(losses, Loss).items() if not issubclass(kind, ClassLoss)}
Z = 3 * np.random.default_rng(1).standard_normal(400)
each = pytest.mark.parametrize("name", LOSSES)


def slopes_of(loss, z, b):
    out = np.empty_like(z)
    loss.slopes(z.copy(), b, np.ones_like(z), out)
    return out


def kinked(loss, z, b, h):
    """Rows within h of a place where the second derivative jumps."""
    edge = {"Huber": np.abs(np.abs(z - b) - getattr(loss, "width", 0.0)), "SquaredHinge": np.abs(1 - b * z)}
    return edge.get(type(loss).__name__, np.full_like(z, np.inf)) < 2 * h


def test_every_loss_of_one_score_has_targets_here():
    assert set(TARGETS) == set(LOSSES)


@each
def test_slopes_and_bends_are_finite_differences(name):
    loss, b, h = LOSSES[name](), TARGETS[name], 1e-5
    ahead, behind = loss.values(Z + h, b), loss.values(Z - h, b)
    np.testing.assert_allclose(slopes_of(loss, Z, b), (ahead - behind) / (2 * h), rtol=1e-5, atol=1e-5)
    smooth = ~kinked(loss, Z, b, h)
    second = (slopes_of(loss, Z + h, b) - slopes_of(loss, Z - h, b)) / (2 * h)
    np.testing.assert_allclose(loss.bends(Z, b)[smooth], second[smooth], rtol=1e-5, atol=1e-5)


@each
def test_the_curvature_is_reached_and_never_exceeded_and_the_floor_too(name):
    loss, b = LOSSES[name](), TARGETS[name]
    z = np.linspace(-9, 9, 20_001)
    for target in np.unique(b[np.abs(b) < 5])[:9]:
        column = np.full_like(z, target)
        growth = np.diff(slopes_of(loss, z, column)) / np.diff(z)
        if np.isfinite(loss.curvature):
            assert growth.max() <= loss.curvature * (1 + 1e-6)
            assert growth.max() >= loss.curvature * (1 - 1e-3)
        least = loss.values(z, column).min()
        assert 0 <= least - loss.floor(column)[0] <= (1e-3 if target else 2e-4)
        assert (growth >= -1e-9).all()  # convex


@each
def test_a_parabola_that_touches_the_loss_is_nowhere_below_it_and_no_flatter_one_is(name):
    """loss(z + t) <= loss(z) + loss'(z) t + above t^2 / 2 for all t, and 2% less is too little somewhere from every z."""
    loss, b = LOSSES[name](), TARGETS[name]
    z = np.concatenate([Z[:200], 300 * Z[200:]])
    above = loss.above(z, b)
    if not np.isfinite(loss.curvature):
        assert np.isinf(above).all()
        return
    assert (above <= loss.curvature).all()
    enough, tight = np.ones(400, dtype=bool), np.zeros(400, dtype=bool)
    slope = slopes_of(loss, z, b)
    for t in (-3e5, -100.0, -1.0, -1e-3, 1e-3, 1.0, 100.0, 3e5, -2 * z, -2 * (z - b)):  # also where even losses are the same
        rise, model = loss.values(z + t, b) - loss.values(z, b), slope * t + above * t**2 / 2
        slack = 1e-9 * (1 + np.abs(slope * t) + above * t**2)
        enough &= rise <= model + slack
        tight |= rise > model - 0.02 * above * t**2 / 2 + slack
    assert enough.all()
    assert tight.all()


@each
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_slopes_may_be_written_over_the_scores_and_keep_the_precision(name, dtype):
    loss, b, z, shares = LOSSES[name](), TARGETS[name].astype(dtype), Z.astype(dtype), RNG.random(400).astype(dtype)
    out = np.empty_like(z)
    loss.slopes(z, b, shares, out)
    np.testing.assert_allclose(out, slopes_of(loss, z, b) * shares, rtol=1e-5, atol=1e-6)
    loss.slopes(z, b, shares, z)
    assert np.array_equal(z, out)
    assert loss.values(z, b).dtype == loss.bends(z, b).dtype == loss.above(z, b).dtype == dtype


@each
def test_no_score_of_a_finite_loss_gives_nan(name):
    loss = LOSSES[name]()
    with np.errstate(all="raise", under="ignore"):
        for size in (0.0, 1e-300, 1.0, 30.0, 700.0, 1e100):
            for b in (TARGETS[name][:9], np.abs(TARGETS[name][:9])):
                for z in (np.full(9, size), np.full(9, -size)):
                    values, slopes = loss.values(z, b), slopes_of(loss, z, b)
                    overflows = name == "Poisson" and z[0] > 709
                    assert np.isfinite(values).all() != overflows
                    assert np.isfinite(slopes).all() != overflows
                    assert not np.isnan(values).any()


def test_the_logistic_loss_is_exact_to_the_last_digits_at_every_size():
    v = np.concatenate([10.0 ** np.linspace(-300, 2.8, 20_001), [0.0]])
    z, b = np.concatenate([v, -v]), np.ones(2 * len(v))
    small = np.log1p(np.exp(-np.abs(z).astype(np.longdouble)))
    true = np.maximum(-z, 0) + small
    assert np.abs(Logistic().values(z, b) / true - 1).max() < 6e-16
    np.testing.assert_array_equal(Logistic().values(-z, -b), Logistic().values(z, b))
    single = Logistic().values(z.astype(np.float32), b.astype(np.float32))
    assert single.dtype == np.float32
    extremes = Logistic().values(np.array([np.inf, -np.inf, np.nan]), np.ones(3))
    np.testing.assert_allclose(extremes, [0, np.inf, np.nan], atol=1e-300)


def test_scikit_learn_has_the_same_poisson_loss():
    theirs, ours = HalfPoissonLoss(), ef.Poisson()
    constant = theirs.constant_to_optimal_zero(COUNTS)
    np.testing.assert_allclose(ours.values(Z, COUNTS), theirs.loss(COUNTS, Z) + constant, rtol=1e-12, atol=1e-12)
    gradient, hessian = theirs.gradient_hessian(COUNTS, Z)
    np.testing.assert_allclose(slopes_of(ours, Z, COUNTS), gradient, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ours.bends(Z, COUNTS), hessian, rtol=1e-12)
    assert 2 * ours.values(Z, COUNTS).mean() == pytest.approx(mean_poisson_deviance(COUNTS, np.exp(Z)), rel=1e-12)


@pytest.mark.parametrize("width", [0.3, 1.35, 100.0])
def test_scikit_learn_has_half_of_our_huber_loss(width):
    """Ours is the square where nothing is far; theirs is half of it."""
    theirs, ours = HuberLoss(delta=width), ef.Huber(width=width)
    np.testing.assert_allclose(ours.values(Z, REALS), 2 * theirs.loss(REALS, Z), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(slopes_of(ours, Z, REALS), 2 * theirs.gradient(REALS, Z), rtol=1e-12, atol=1e-12)
    if width == 100:
        np.testing.assert_allclose(ours.values(Z, REALS), ef.Squared().values(Z, REALS), rtol=1e-12)


def rows():
    rng = np.random.default_rng(3)
    A = rng.standard_normal((60, 9)) * (rng.random((60, 9)) < 0.5)
    A[np.arange(60), np.arange(60) % 9] = 1.0
    return A, rng.integers(0, 2, 60), np.arange(60) % 6


CONSTRUCTORS = {
    "huber": lambda A, y, c, **o: (ef.huber(A, 9.0 * y, c, width=0.7, **o), ef.Huber(width=0.7), 9.0 * y),
    "poisson": lambda A, y, c, **o: (ef.poisson(A, 3 * y, c, **o), ef.Poisson(), 3.0 * y),
    "squared_hinge": lambda A, y, c, **o: (ef.squared_hinge(A, y, c, **o), ef.SquaredHinge(), 2.0 * y - 1),
}


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_a_constructor_is_the_mean_loss_over_clients_with_the_options_of_glm(name):
    A, y, clients = rows()
    weights = 1.0 + np.arange(60) % 3
    problem, loss, target = CONSTRUCTORS[name](A, y, clients, intercept=True, sample_weight=weights)
    x = 0.3 * np.random.default_rng(0).standard_normal(10)
    z = A @ x[:-1] + x[-1]
    assert problem.value(x) == pytest.approx(np.average(loss.values(z, target), weights=weights), rel=1e-12)
    slopes = np.empty_like(z)
    loss.slopes(z, target, weights / weights.sum(), slopes)
    np.testing.assert_allclose(problem.gradient(x), np.append(A.T @ slopes, slopes.sum()), rtol=1e-11, atol=1e-13)
    single, _, _ = CONSTRUCTORS[name](A, y, clients, dtype=np.float32, regularizer=ef.NonconvexPenalty(0.1))
    assert single.dtype == np.float32
    assert single.regularizer == ef.NonconvexPenalty(0.1)


@pytest.mark.parametrize("loss", ["huber", "squared_hinge"])
def test_the_constants_are_upper_bounds_and_theorem_1_is_certified(loss):
    A, y, clients = rows()
    problem = CONSTRUCTORS[loss](A, y, clients)[0]
    theory, rng = ef.analyse(problem, ef.TopK(1)), np.random.default_rng(0)
    for _ in range(50):
        x, v = rng.standard_normal((2, problem.d))
        moved = problem.gradients_at(x + v) - problem.gradients_at(x)
        assert np.linalg.norm(problem.support.scatter(moved)) / problem.n <= theory.L * np.linalg.norm(v) * (1 + 1e-9)
        own = problem.support.norms2(problem.support.gather(v))
        assert (problem.support.norms2(moved) <= theory.L_i**2 * own * (1 + 1e-9)).all()
    assert ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=100).certificate.verdict == "held"
    assert "bound" in theory.how["L"] if loss == "huber" else "bound" not in theory.how["L"]


def test_no_theorem_speaks_of_the_poisson_loss_and_an_overflow_is_a_divergence():
    A, y, clients = rows()
    problem = ef.poisson(A, 3 * y, clients)
    with pytest.raises(ValueError, match="Poisson has no bound on its curvature, and what was asked for needs one"):
        ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=1)
    run = ef.solve(problem, ef.DGD(), ef.Constant(1e4), rounds=50)
    assert "diverged" in run.stopped
    assert run.certificate.verdict == "not applicable"


@pytest.mark.parametrize("scale", [False, True])
def test_trial_steps_at_which_the_poisson_loss_overflows_are_refused(scale):
    """From a first step that is a million times too long, to the minimum. Gradients out there are of any size: a pair made
    of them would make steps that nobody can tell from standing."""
    A, y, clients = rows()
    problem = ef.poisson(3 * A, 30 * y, clients)
    problem = ef.scaled(problem) if scale else problem
    run = ef.solve(problem, ef.EF21(ef.PowersOfTwo(4)), ef.Armijo(guess=1e6), direction=ef.LBFGS(), rounds=400)
    low = ef.solve(problem, ef.DGD(), ef.Armijo(), direction=ef.LBFGS(), rounds=400)
    assert np.isinf(run.history["f"]).any()
    assert problem.value(run.x) <= problem.value(low.x) * (1 + 1e-6)


BAD = {
    r"b\[1\] = -1; the Poisson loss is for counts": lambda: ef.poisson(np.eye(3), [0, -1, 2], 3),
    r"b\[2\] = 2; targets are -1 or 1": lambda: ef.glm(np.eye(3), [1, -1, 2], 3, ef.SquaredHinge()),
    "y has 3 distinct values .* the squared hinge needs exactly two": lambda: ef.squared_hinge(np.eye(3), [0, 1, 2], 3),
    "width = 0; the square must reach": lambda: ef.huber(np.eye(3), [0, 1, 2], 3, width=0),
    "width = nan": lambda: ef.Huber(width=np.nan),
    "poisson needs numbers": lambda: ef.poisson(np.eye(3), ["a", "b", "c"], 3),
    "claims a curvature of at most 1.95": lambda: ef.glm(np.eye(3), [0.0, 1.0, 2.0], 3, ef.Huber(curvature=1.95)),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_names_the_value_and_the_rule(message):
    with pytest.raises(ValueError, match=message):
        BAD[message]()
