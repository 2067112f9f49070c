"""A start from the clients' own models: what is said in `estimators.local_models`, literally, client by client."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

import errorfeedback as ef
from errorfeedback.estimators import local_models
from errorfeedback.estimators.local_models import averaged, averaged_with_all
from errorfeedback.problems.conversation import Side, heard_by
from errorfeedback.wire.codebook import MENU

N, D, L2 = 6, 5, 0.01
SIZES = (12, 30, 9, 21, 17, 2)


def table(seed=0):
    """Rows of one kind, dealt to clients of unlike sizes; feature 3 is rare, feature 4 in other units; the last client has
    too few rows to speak."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((sum(SIZES), D)) * [1.0, 1.0, 1.0, 1.0, 40.0]
    A[rng.random(len(A)) < 0.7, 3] = 0.0
    A[-2:, 3] = 1.0
    z = A @ [1.0, -1.0, 0.5, 1.5, 0.01]
    y = np.where(rng.random(len(A)) < 1 / (1 + np.exp(-z)), 1.0, -1.0)
    return A, y, np.repeat(np.arange(N), SIZES)


LOSSES = {
    "logistic": (lambda z, y: np.log1p(np.exp(-y * z)), lambda z: 1 / (1 + np.exp(-z)) / (1 + np.exp(z)), 0.25),
    "squared": (lambda z, y: (z - y) ** 2, lambda z: np.full_like(z, 2.0), 2.0),
}


def own_model(A, y, loss, bends, bound, weight):
    """w_i and H_i, by the book; weight: a_i."""
    m, mean = len(y), lambda values: weight * values.mean(axis=0)
    h = bound * (A**2).mean(axis=0)
    in_every_row = np.array([bound * (A[A[:, j] != 0, j] ** 2).mean() for j in range(A.shape[1])])
    typical = 2.0 ** np.rint(np.log2(weight * np.median(in_every_row))) / weight
    dense = 2 * (A != 0).sum(axis=0) > m
    s = typical * (h / typical) ** np.where(dense, 1.0, 0.5)
    penalty = weight * (L2 + 3.0 * s / m)
    found = minimize(lambda w: mean(loss(A @ w, y)) + penalty @ w**2 / 2, np.zeros(A.shape[1]), method="BFGS", tol=1e-10)
    return found.x, mean(bends(A @ found.x)[:, None] * A**2) + weight * L2, weight * h


@pytest.fixture
def exactly(monkeypatch):
    """Own models to the last digits, and said with them."""
    monkeypatch.setattr(local_models, "NEWTON", 30)
    monkeypatch.setattr(local_models, "CG", 60)
    monkeypatch.setattr(local_models, "RESIDUAL", 1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", LOSSES)
def test_it_is_the_mean_of_own_models_weighted_by_how_sharply_losses_bend(name, weighted, exactly, monkeypatch):
    monkeypatch.setattr(local_models, "WORDS", MENU[-1])
    A, y, clients = table()
    make = {"logistic": ef.logistic, "squared": ef.least_squares}[name]
    rows = make(A, y, clients, sample_weight=np.ones(len(y)) if weighted else None)
    pulls, bends = np.zeros((2, D))
    for i in range(N - 1):  # the last one is silent
        weight = N * SIZES[i] / len(y) if weighted else 1.0
        w, H, h = own_model(A[clients == i], y[clients == i], *LOSSES[name], weight)
        told = 2.0 ** np.rint(np.log2(h))
        H = told * 2.0 ** np.clip(np.rint(np.log2(H / told)), -7, 0)
        pulls, bends = pulls + H * w, bends + H
    found = averaged(rows, L2)
    np.testing.assert_allclose(found.x, pulls / bends, rtol=3e-3)  # 9 digits are said of w
    np.testing.assert_allclose(found.curvature, bends, rtol=1e-12)
    assert found.zero == pytest.approx(np.mean(rows.values_at(np.zeros(D))), rel=1e-6)


def test_what_clients_say_is_counted():
    A, y, clients = table()
    sizes = [len(np.flatnonzero(A[clients == i].any(axis=0))) for i in range(N - 1)]
    assert averaged(ef.logistic(A, y, clients), L2).bits == N * (32 + 1) + sum(16 + 11 * size for size in sizes)


def test_rounding_costs_a_tenth_of_the_clients_disagreement_at_most_and_no_more_bits_than_that_takes():
    A, y, clients = table()
    rows = ef.logistic(A, y, clients, sample_weight=np.ones(len(y)))
    mean, scaling = averaged(rows, L2), ef.scaled(rows, power=None, l2=L2)
    begin = mean.begin(scaling)
    words = [mean_words(rows, i) for i in range(N - 1)]
    H, w = np.array([h for _, h in words]), np.array([w for w, _ in words])
    noise = (H * (w - mean.x) ** 2).sum() / (N - 2)
    assert mean.noise == pytest.approx(noise, rel=1e-9)
    lost = [mean.curvature @ (scaling.scale * coding.rounded(mean.x / scaling.scale, np.array([D]))[0] - mean.x) ** 2
            for coding in MENU]  # fmt: skip
    k = next(k for k, cost in enumerate(lost) if cost <= noise / 10)
    assert 0 < k < len(MENU) - 1
    assert mean.curvature @ (scaling.scale * begin.x - mean.x) ** 2 == pytest.approx(lost[k])
    assert np.array_equal(MENU[k].rounded(begin.x, np.array([D]))[0], begin.x)


@pytest.mark.parametrize(("share", "used"), [(0.098, True), (0.102, False)])
def test_a_tenth_is_a_tenth(share, used):
    """The disagreement is such that rounding to 6 bits costs that share of it."""
    A, y, clients = table()
    scaling = ef.scaled(ef.logistic(A, y, clients), power=None, l2=L2)
    x, curvature, coding = np.array([1.0, -0.3, 0.77, 0.2, 0.01]), np.arange(1.0, 6.0), MENU[2]
    z = x / scaling.scale
    rounded = coding.rounded(z, np.array([D]))[0]
    noise = curvature @ (scaling.scale * (rounded - z)) ** 2 / share
    begin = local_models.Averaged(x, curvature, noise, 0.0, 0).begin(scaling)
    assert np.array_equal(begin.x, rounded) == used


def mean_words(rows, i):
    """What client i says alone."""
    alone = rows.shard(i, i + 1)
    said = local_models._said(alone, np.full(D, L2))
    return said.models, said.bends


def test_who_has_few_rows_or_one_target_says_nothing():
    A, y, clients = table()
    full = averaged(ef.logistic(A, y, clients), L2)
    y[clients == 1] = 1.0
    without = averaged(ef.logistic(A, y, clients), L2)
    kept = clients != 1
    again = averaged(ef.logistic(A[kept], y[kept], clients[kept]), L2)
    assert not np.allclose(full.x, without.x, rtol=1e-3)
    np.testing.assert_allclose(without.x, again.x, rtol=1e-12)
    for lone in (2, 3):
        y[clients == lone] = -1.0
    y[-2:] = [1.0, -1.0]
    silent = averaged(ef.logistic(A, y, clients), L2)  # two of six speak
    assert not silent.x.any()
    assert silent.bits == N * 33 + 2 * (16 + 11 * D)
    model = ef.EF21Classifier(l2=L2).fit(A, y, groups=clients)
    zero = ef.EF21Classifier(l2=L2, warm_start=True)
    zero.coef_, zero.intercept_ = np.zeros((1, D)), np.zeros(1)
    assert np.array_equal(model.coef_, zero.fit(A, y, groups=clients).coef_)  # nothing but the bits is different


def test_it_is_the_same_wherever_the_clients_are():
    """Three places with clients of their own, bit for bit."""
    A, y, clients = table()
    whole = ef.logistic(A, y, clients, sample_weight=np.ones(len(y)))
    expected = averaged(whole, L2)
    cuts = [0, 1, 4, N]
    sides = [Side(averaged_with_all(whole.shard(lo, hi), L2)) for lo, hi in pairwise(cuts)]
    said = None
    while not sides[0].ended:
        for k, side in enumerate(sides):
            side.hear(None if said is None else heard_by(k, said))
        said = [side.says for side in sides]
    for side in sides:
        assert side.result.x.tobytes() == expected.x.tobytes()
        assert (side.result.noise, side.result.zero, side.result.bits) == (expected.noise, expected.zero, expected.bits)


def test_a_model_begins_there_and_gets_to_the_same_minimum_in_fewer_bytes():
    rng = np.random.default_rng(1)
    A = rng.standard_normal((3000, 20)) * (rng.random((3000, 20)) < 0.5)
    y = rng.random(3000) < 1 / (1 + np.exp(-A @ rng.standard_normal(20)))
    model = ef.EF21Classifier(n_clients=10, l2=1e-3).fit(A, y)
    zero = ef.EF21Classifier(n_clients=10, l2=1e-3)
    objective = zero.objective(A, y)
    zero.warm_start, zero.coef_, zero.intercept_ = True, np.zeros((1, 20)), np.zeros(1)
    zero.fit(A, y)
    f, f0 = model.history_["f"], zero.history_["f"]
    least = min(f.min(), f0.min())
    assert f0[0] == pytest.approx(np.log(2)) == objective.begin.since
    assert f[0] - least < 0.01 * (np.log(2) - least)
    assert model.loss_ == pytest.approx(zero.loss_, abs=1e-6)
    to = [next(k for k, each in enumerate(curve) if each <= least + 1e-3 * (np.log(2) - least)) for curve in (f, f0)]
    bits = [
        run.history_["uplink_bits"][k] + run.history_["downlink_bits"][k] for run, k in zip((model, zero), to, strict=True)
    ]
    assert bits[0] < 0.9 * bits[1]
    assert "from the mean of the clients' own models" in model.choice_
    assert "own models" not in zero.choice_
    assert "only where progress is slow" in zero.choice_
    again = ef.EF21Classifier(n_clients=100, l2=1e-3, own_models=False, warm_start=True)
    again.coef_, again.intercept_, again.classes_ = model.coef_, model.intercept_, model.classes_
    again.fit(A, y)
    assert again.history_["curvature_bits"][0] > 0
    assert "at the start and where progress is slow" in again.choice_  # which is a model
    assert model.before_.own_model == objective.begin.bits / 8 / 10
    assert zero.before_.own_model == 0.0


def test_l1_topk_and_who_does_not_want_it_begin_at_zero():
    A, y, clients = table()
    for options in ({"l1": 0.01}, {"k": 1}, {"scale": False}, {"own_models": False}):
        assert ef.EF21Classifier(**options).objective(A, y, groups=clients).begin is None
