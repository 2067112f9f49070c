"""Long models: their pairs are kept in single precision, and there are fewer of them."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.directions import quasi_newton
from errorfeedback.directions.quasi_newton import PLAIN, Pairs, Secants
from errorfeedback.planner import recipe


def logistic():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((120, 20)) * 10.0 ** rng.uniform(-1, 0.5, 20)
    return ef.logistic(A, np.where(A @ rng.standard_normal(20) + rng.standard_normal(120) > 0, 1, -1), clients=8)


@pytest.fixture
def long(monkeypatch):
    monkeypatch.setattr(quasi_newton, "LONG", 1)


def quadratic_run(single, scale=1.0, rounds=30, d=12):
    rng = np.random.default_rng(0)
    H, x, pairs = np.diag(10.0 ** np.linspace(-2, 1, d)), np.zeros(d), Pairs(np.zeros(d), single=single)
    for t in range(rounds):
        x = x if t == 5 else scale * rng.standard_normal(d)  # everybody stands once
        pairs = pairs.arrived(x, H @ x, PLAIN, 20)
    return pairs


def test_pairs_of_long_models_are_kept_in_half_the_bytes_and_make_the_same_step():
    short, whole = quadratic_run(True), quadratic_run(False)
    assert {v.dtype for v in (*short.known.s, *short.known.y)} == {np.dtype(np.float32)}
    assert {v.dtype for v in (*whole.known.s, *whole.known.y)} == {np.dtype(np.float64)}
    a, b = (pairs.towards(PLAIN) for pairs in (short, whole))
    assert a.dtype == np.float64
    np.testing.assert_allclose(a, b, atol=1e-4 * np.abs(b).max())
    assert not np.array_equal(a, b)


def test_products_of_short_pairs_are_summed_in_double():
    s, y = (np.full(2**20, value, dtype=np.float32) for value in (1.1, 0.9))
    known = Secants().joined(s, y, 5)
    assert known.sy[0, 0] == pytest.approx(2**20 * float(s[0]) * float(y[0]), rel=1e-12)


def test_a_pair_enters_as_it_is_kept():
    """In double s'y is 2.5e-8; rounded it is 0, and H would not be positive definite."""
    pairs = Pairs(np.zeros(2), np.zeros(2), single=True).arrived(np.ones(2), np.array([1.0, -1.0 + 2.5e-8]), PLAIN, 5)
    assert pairs.known is None
    assert pairs.towards(PLAIN).tolist() == [1.0, -1.0 + 2.5e-8]


@pytest.mark.parametrize("scale", [1e-40, 1e40])
def test_vectors_that_single_precision_cannot_hold_stay_as_they_are(scale):
    pairs = quadratic_run(True, scale)
    assert {v.dtype for v in (*pairs.known.s, *pairs.known.y)} == {np.dtype(np.float64)}
    assert np.isfinite(pairs.towards(PLAIN)).all()


@pytest.mark.parametrize("l1", [0.0, 1e-3])
@pytest.mark.parametrize("full", [True, False])
def test_runs_with_short_pairs_end_at_the_same_minimum(l1, full, monkeypatch):
    problem, prox, ends = logistic(), ef.ElasticNet(l1=l1, l2=1e-3), []
    method = ef.DGD() if full else ef.EF21(ef.FittedAnswer(least=24), "compressed")
    down = ef.FittedStep(least=24, zeros=l1 > 0)
    for longest in (2**17, 1):
        monkeypatch.setattr(quasi_newton, "LONG", longest)
        run = ef.solve(problem, method, ef.Armijo(), direction=ef.LBFGS(), downlink=down, rounds=150, prox=prox)
        ends.append(problem.value(run.x) + prox.on(problem).value(run.x))
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)


def killed(row):
    if row["round"] >= 25:
        raise RuntimeError("killed")


def test_a_run_of_a_long_model_goes_on_as_it_was(long, tmp_path):
    problem = logistic()
    options = {"direction": ef.LBFGS(), "downlink": ef.FittedStep()}
    method = ef.EF21(ef.FittedAnswer(), "compressed")
    whole = ef.solve(problem, method, ef.Armijo(), rounds=30, **options)
    keep = ef.Checkpoint(tmp_path / "state", every=10)
    with pytest.raises(RuntimeError, match="killed"):
        ef.solve(problem, method, ef.Armijo(), rounds=30, checkpoint=keep, watch=killed, **options)
    again = ef.resume(tmp_path / "state")
    np.testing.assert_array_equal(again.x, whole.x)


def test_train_remembers_ten_pairs_of_a_long_model(monkeypatch):
    A, y = np.eye(30), np.arange(30) % 3
    problem = ef.softmax(A, y, np.arange(30) % 5)
    assert recipe.few_bits(problem, None, 1e-5).direction == ef.LBFGS(20)
    monkeypatch.setattr(recipe, "LONG", problem.support.d - 1)
    assert recipe.few_bits(problem, None, 1e-5).direction == ef.LBFGS(10)
