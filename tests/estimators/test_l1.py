"""Models with an L1 penalty: those of scikit-learn, optimal, with exact zeros, and never a step up."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_regression
from sklearn.linear_model import ElasticNet, LogisticRegression

import errorfeedback as ef

CLIENTS = 12


def rows(seed=0, m=600, d=40):
    """Labels, and features of different scales, some of them missing in some rows."""
    rng = np.random.default_rng(seed)
    X, y = make_classification(m, d, n_informative=12, n_redundant=8, flip_y=0.05, random_state=seed)
    return X * 10.0 ** rng.uniform(-1, 1, d) * (rng.random((m, d)) < 0.7), y


def objective(X, y, w, b, l1, l2):
    z = (2 * y - 1) * (X @ w + b)
    return np.mean(np.logaddexp(0, -z)) + l1 * np.abs(w).sum() + l2 / 2 * w @ w


def theirs(X, y, l1, l2=0.0):
    """Full precision, to the last digit."""
    weight = 1 / (len(y) * (l1 + l2))
    model = LogisticRegression(C=weight, l1_ratio=l1 / (l1 + l2), solver="saga", max_iter=200_000, tol=1e-10)
    return model.fit(X, y)


@pytest.mark.parametrize(("l1", "l2"), [(1e-2, 0.0), (4e-3, 0.0), (5e-3, 5e-3)])
@pytest.mark.parametrize("network", [None, "up=1Mbit/s,down=10Mbit/s,latency=50ms"])
def test_the_model_is_scikit_learns(l1, l2, network):
    X, y = rows()
    X = X / X.std(axis=0)  # saga creeps otherwise
    model = ef.EF21Classifier(l1=l1, l2=l2, n_clients=CLIENTS, tol=1e-9, network=network).fit(X, y)
    other = theirs(X, y, l1, l2)
    best = objective(X, y, other.coef_[0], other.intercept_[0], l1, l2)
    ours = objective(X, y, model.coef_[0], model.intercept_[0], l1, l2)
    assert abs(ours - best) <= 1e-6 * best
    assert model.loss_ == pytest.approx(ours, rel=1e-9)
    assert abs((model.coef_ != 0).sum() - (other.coef_ != 0).sum()) <= 2
    assert 3 < (model.coef_ != 0).sum() < 38


@pytest.mark.parametrize("share", [0.97, 1.03])
def test_another_weight_has_another_minimum(share):
    """Negative control: a l1 that is off by three percent is noticed."""
    X, y = rows()
    X = X / X.std(axis=0)
    model = ef.EF21Classifier(l1=share * 1e-2, l2=0.0, n_clients=CLIENTS, tol=1e-9).fit(X, y)
    other = theirs(X, y, 1e-2)
    best = objective(X, y, other.coef_[0], other.intercept_[0], 1e-2, 0.0)
    assert objective(X, y, model.coef_[0], model.intercept_[0], 1e-2, 0.0) > best * (1 + 2e-6)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_end_is_optimal_and_the_loss_never_rises(seed, scale):
    """|slope_j| <= l1 where a weight is 0, and slope_j = -l1 sign(w_j) where it is not; no slope at the intercept."""
    X, y = rows(seed)
    X = X if scale else X / X.std(axis=0)
    l1, near = 5e-3, 2e-6
    model = ef.EF21Classifier(l1=l1, l2=0.0, n_clients=CLIENTS, tol=1e-11, scale=scale, max_iter=3000).fit(X, y)
    w, z = model.coef_[0], X @ model.coef_[0] + model.intercept_[0]
    left = (1 / (1 + np.exp(-z)) - y) / len(y)
    slopes = X.T @ left
    size = np.abs(X).max(axis=0)  # what a slope can be
    assert np.abs((slopes + l1 * np.sign(w)) / size)[w != 0].max() <= near
    assert (np.abs(slopes)[w == 0] <= l1 + (near * size)[w == 0]).all()
    assert abs(left.sum()) <= near
    assert 0 < (w == 0).sum() < 40
    f = model.history_["f"]
    assert (f[np.isfinite(f)] >= model.loss_ * (1 - 1e-12)).all()
    assert model.n_iter_ < 150


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_regressions_are_those_of_full_precision(loss):
    X, t = make_regression(500, 30, n_informative=8, noise=5.0, random_state=0)
    t = t / t.std()
    model = ef.EF21Regressor(loss=loss, l1=0.02, l2=0.0, n_clients=CLIENTS, tol=1e-9).fit(X, t)
    assert 4 < (model.coef_ != 0).sum() < 25
    if loss == "squared":
        other = ElasticNet(alpha=0.01, l1_ratio=1.0, tol=1e-14, max_iter=100_000).fit(X, t)  # of half of our loss
        np.testing.assert_allclose(model.coef_, other.coef_, atol=1e-4)
        assert np.array_equal(model.coef_ != 0, other.coef_ != 0)


def test_counts_have_sparse_models_too():
    """The Poisson loss has no bound on its curvature; told losses need none."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 20))
    counts = rng.poisson(np.exp(X[:, :3] @ [0.8, -0.5, 0.3]))
    model = ef.EF21PoissonRegressor(l1=0.02, l2=0.0, n_clients=CLIENTS, tol=1e-10).fit(X, counts)
    slopes = X.T @ (np.exp(X @ model.coef_ + model.intercept_) - counts) / len(counts)
    assert np.abs(slopes + 0.02 * np.sign(model.coef_))[model.coef_ != 0].max() <= 1e-4
    assert (np.abs(slopes)[model.coef_ == 0] <= 0.02 + 1e-4).all()
    assert 3 <= (model.coef_ != 0).sum() < 16


def test_many_classes_are_optimal_too():
    """One softmax model of features x classes, by L-BFGS alone."""
    X, y = make_classification(600, 25, n_informative=10, n_classes=4, random_state=0)
    model = ef.EF21Classifier(l1=5e-3, l2=0.0, n_clients=CLIENTS, tol=1e-10, max_iter=3000).fit(X, y)
    z = X @ model.coef_.T + model.intercept_
    p = np.exp(z - z.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    slopes = (p - np.eye(4)[y]).T @ X / len(y)
    near = 1e-4
    assert np.abs(slopes + 5e-3 * np.sign(model.coef_))[model.coef_ != 0].max() <= near
    assert (np.abs(slopes)[model.coef_ == 0] <= 5e-3 + near).all()
    assert 10 < (model.coef_ == 0).sum() < 90


def test_what_is_said_of_it():
    X, y = rows()
    model = ef.EF21Classifier(l1=1e-2, n_clients=CLIENTS).fit(X, y)
    assert "proximal" in model.choice_
    assert "of all progress is left" in model.stopped_
    assert np.nanmin(model.history_["estimated_gap"]) > 0
    assert model.n_iter_ < 60
