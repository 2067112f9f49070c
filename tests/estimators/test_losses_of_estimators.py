"""Counts, wild targets and margins: the models are those of scikit-learn with the same objective, in Python, from the
command line, and from a model file.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from commands import call, plain
from sklearn.datasets import make_classification
from sklearn.linear_model import HuberRegressor, PoissonRegressor
from sklearn.metrics import d2_tweedie_score, mean_poisson_deviance, roc_auc_score
from sklearn.svm import LinearSVC

import errorfeedback as ef
from errorfeedback.data.encoding import Indices
from errorfeedback.estimators.class_models import Margins
from errorfeedback.estimators.model_file import load, save
from errorfeedback.estimators.scores import measured
from errorfeedback.problems.losses.squared_hinge import HingeAgainstRest

POINTS = 0.002
"""0.2 points of accuracy or explained deviance."""
L2 = 1e-3


def counted(seed=0, spread=0.4, shift=0.0, rows=2000, features=15):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, features)) * (rng.random((rows, features)) < 0.4)
    return X, rng.poisson(np.exp(X @ (spread * rng.standard_normal(features)) + shift))


@pytest.mark.parametrize(("spread", "shift"), [(0.4, 0.0), (0.3, 5.0), (0.3, -2.0)])
@pytest.mark.parametrize("weighted", [False, True])
def test_counts_are_explained_as_by_scikit_learn(spread, shift, weighted):
    X, y = counted(spread=spread, shift=shift)
    w = 1.0 + np.arange(len(y)) % 3 if weighted else None
    ours = ef.EF21PoissonRegressor(n_clients=20, l2=L2).fit(
        X[:1500], y[:1500], sample_weight=None if w is None else w[:1500]
    )
    theirs = PoissonRegressor(alpha=L2, tol=1e-8, max_iter=5000).fit(X[:1500], y[:1500], None if w is None else w[:1500])
    held = X[1500:], y[1500:], None if w is None else w[1500:]
    assert ours.score(*held) == pytest.approx(theirs.score(*held), abs=POINTS)
    assert ours.score(*held) == pytest.approx(
        d2_tweedie_score(held[1], ours.predict(held[0]), sample_weight=held[2], power=1)
    )
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=5e-3)
    np.testing.assert_allclose(ours.predict(X), np.exp(X @ ours.coef_ + ours.intercept_), rtol=1e-12)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("seed", [0, 5])
def test_counts_of_every_size_are_trained_on_safely(seed, scale):
    """Full steps end where the loss is infinite, and are refused; halving them took 300 to 650 rounds."""
    X, y = counted(seed, spread=1.3, rows=1500, features=20)
    assert y.max() > 1e4
    model = ef.EF21PoissonRegressor(n_clients=20, l2=L2, scale=scale).fit(X, y)
    assert np.isfinite(model.coef_).all()
    assert model.n_iter_ < 120
    assert not np.isfinite(model.history_["f"]).all() or model.history_["f"].max() > 100 * model.history_["f"][0]
    theirs = PoissonRegressor(alpha=L2, tol=1e-8, max_iter=5000, solver="newton-cholesky").fit(X, y)
    assert model.score(X, y) > theirs.score(X, y) - POINTS


def test_a_score_where_the_target_is_constant_is_that_of_r2():
    X, y = counted(rows=200)
    model = ef.EF21PoissonRegressor(n_clients=4).fit(X, y)
    assert model.score(X, np.full(200, 3)) == 0.0
    model.coef_, model.intercept_ = 0 * model.coef_, float(np.log(3))
    assert model.score(X, np.full(200, 3)) == 1.0


def test_few_wild_targets_are_outweighed_as_by_scikit_learn():
    """Its objective with the scale that it found: (1/m) sum Huber + (alpha sigma / m)||w||^2."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 12))
    y = X @ np.arange(12) + 1 + rng.standard_normal(600) + 300 * (rng.random(600) < 0.05)
    theirs = HuberRegressor(epsilon=1.35, alpha=0.1, tol=1e-10, max_iter=5000).fit(X, y)
    width, l2 = 1.35 * theirs.scale_, 2 * 0.1 * theirs.scale_ / 600
    ours = ef.EF21Regressor(loss="huber", huber_width=width, l2=l2, n_clients=20, tol=1e-12, max_iter=20_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-3)
    squares = ef.EF21Regressor(l2=l2, n_clients=20, tol=1e-12, max_iter=20_000).fit(X, y)
    assert np.abs(squares.coef_ - np.arange(12)).max() > 5 * np.abs(ours.coef_ - np.arange(12)).max()
    wide = ef.EF21Regressor(loss="huber", huber_width=1e6, l2=l2, n_clients=20, tol=1e-12, max_iter=20_000).fit(X, y)
    np.testing.assert_allclose(wide.coef_, squares.coef_, atol=1e-3)  # l2 means the same for both


@pytest.mark.parametrize("classes", [2, 4])
def test_margins_are_those_of_linear_svc(classes):
    X, y = make_classification(900, 20, n_informative=10, n_classes=classes, random_state=0)
    y = np.array(["a", "b", "c", "d"])[y]
    options = {"loss": "squared_hinge", "multi_class": "ovr", "n_clients": 20, "l2": 0.01, "max_iter": 20_000}
    ours = ef.EF21Classifier(fit_intercept=False, tol=1e-12, **options).fit(X[:600], y[:600])
    theirs = LinearSVC(C=1 / (0.01 * 600), dual=False, tol=1e-10, max_iter=10_000, fit_intercept=False).fit(X[:600], y[:600])
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=2e-2)
    ours, theirs = ef.EF21Classifier(**options).fit(X[:600], y[:600]), LinearSVC(C=1 / 6, dual=False).fit(X[:600], y[:600])
    assert ours.score(X[600:], y[600:]) >= theirs.score(X[600:], y[600:]) - POINTS - 1 / 300  # one row of 300
    assert not hasattr(ours, "predict_proba")
    assert hasattr(ef.EF21Classifier(), "predict_proba")


def test_the_held_out_loss_is_that_of_the_model():
    """Half the deviance, the Huber loss, the squared hinge; a constant is the best of its kind."""
    X, y = counted(rows=400)
    train, valid = (X[:300], y[:300]), (X[300:], y[300:])
    poisson = ef.EF21PoissonRegressor(n_clients=5).fit(*train, valid=valid)
    assert poisson.validation_loss_ == pytest.approx(mean_poisson_deviance(valid[1], poisson.predict(valid[0])) / 2)
    same = [mean_poisson_deviance(valid[1], np.full(100, count)) / 2 for count in (train[1].mean(), 1.0)]
    assert poisson.constant_loss_ == pytest.approx(min(same))  # the mean, or the zero model
    huber = ef.EF21Regressor(loss="huber", huber_width=0.5, n_clients=5).fit(*train, valid=valid)
    assert huber.validation_loss_ == pytest.approx(ef.Huber(width=0.5).values(huber.predict(valid[0]), valid[1]).mean())
    for classes in (2, 3):
        code = np.minimum(y, classes - 1)
        svm = ef.EF21Classifier(loss="squared_hinge", multi_class="ovr", n_clients=5)
        svm.fit(X[:300], code[:300], valid=(X[300:], code[300:]))
        scores = svm.decision(X[300:])
        signs = 2 * (code[300:, None] == (np.arange(3) if classes == 3 else 1)) - 1
        assert svm.validation_loss_ == pytest.approx(np.square(np.maximum(1 - signs * scores, 0)).sum(axis=1).mean())
        if classes == 3:
            assert svm.validation_loss_ == pytest.approx(HingeAgainstRest(outputs=3).values(scores, code[300:] + 0.0).mean())


@pytest.mark.parametrize("p", [0.1, 0.5, 0.8])
def test_no_constant_score_has_a_smaller_squared_hinge(p):
    code = (np.arange(1000) < 1000 * p).astype(int)
    best = Margins().constant_losses(np.array([1 - p, p]), code).mean()
    assert best == pytest.approx(4 * p * (1 - p))
    others = [Margins().losses(np.full((1000, 1), z), code).mean() for z in np.linspace(-2, 2, 401)]
    assert best <= min(others) + 1e-12


def test_the_slopes_of_hinges_against_the_rest_are_finite_differences():
    rng, loss, h = np.random.default_rng(0), HingeAgainstRest(outputs=3), 1e-6
    z, b, shares, out = rng.standard_normal((50, 3)), rng.integers(0, 3, 50) + 0.0, rng.random(50), np.empty((50, 3))
    loss.slopes(z, b, shares, out)
    for k in range(3):
        move = h * (np.arange(3) == k)
        twin = shares * (loss.values(z + move, b) - loss.values(z - move, b)) / (2 * h)
        np.testing.assert_allclose(out[:, k], twin, atol=1e-6)
    loss.slopes(z, b, shares, z)
    assert np.array_equal(z, out)


BAD = {
    "the target has -1, and counts are at least 0": lambda X, y: ef.EF21PoissonRegressor().fit(X, y - 1),
    "k = 3 takes first-order steps": lambda X, y: ef.EF21PoissonRegressor(k=3).fit(X, y),
    "loss = 'hinge'; it must be one of 'logistic', 'squared_hinge'": lambda X, y: ef.EF21Classifier(loss="hinge").fit(X, y),
    "loss = 'poisson'; it must be one of 'squared', 'huber'": lambda X, y: ef.EF21Regressor(loss="poisson").fit(X, y),
    "huber_width = 0; it must be a finite number above 0": lambda X, y: ef.EF21Regressor(huber_width=0).fit(X, y),
    "multi_class = 'multinomial', which the loss 'squared_hinge' has not; with 3 classes use 'ovr'": lambda X, y: (
        ef.EF21Classifier(loss="squared_hinge").fit(X, y % 3)
    ),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_names_the_value_and_the_rule(message):
    with pytest.raises(ValueError, match=message):
        BAD[message](*counted(rows=100))


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A count, a class of three and a number behind ten features."""
    folder = tmp_path_factory.mktemp("table")
    X, y = counted(rows=300, features=10)
    head = [f"x{j}" for j in range(10)] + ["count", "grade", "amount"]
    rows = [[*row, k, "abc"[min(k, 2)], k + 0.25 * row[0]] for row, k in zip(X.round(3).tolist(), y.tolist(), strict=True)]
    (folder / "t.csv").write_text("\n".join(",".join(map(str, line)) for line in [head, *rows]) + "\n")
    return folder / "t.csv"


def trained(table, out, target, *options):
    others = ",".join({"count", "grade", "amount"} - {target})
    call("train", table, "--target", target, "--drop", others, "--out", out, "--clients", 6, "--quiet", *options)
    return json.loads(plain(call("evaluate", out, table, "--target", target, "--json")))


def predicted(table, out):
    lines = call("predict", out, table).output.splitlines()
    return lines[0].split(","), [line.split(",") for line in lines[1:]]


def test_counts_from_the_command_line(table, tmp_path):
    scores = trained(table, tmp_path / "run", "count", "--loss", "poisson", "--valid", "0.2")
    assert set(scores) == {"D2", "mean Poisson deviance", "RMSE"}
    assert scores["D2"] > 0.1
    head, rows = predicted(table, tmp_path / "run")
    assert head == ["prediction"]
    said, y = np.array(rows, dtype=float)[:, 0], np.loadtxt(table, delimiter=",", skiprows=1, usecols=10)
    assert scores["mean Poisson deviance"] == pytest.approx(mean_poisson_deviance(y, said))
    assert scores["D2"] == pytest.approx(d2_tweedie_score(y, said, power=1))
    assert "poisson" in (tmp_path / "run" / "report.html").read_text()


def test_margins_from_the_command_line(table, tmp_path):
    scores = trained(table, tmp_path / "run", "grade", "--loss", "squared_hinge", "--multi-class", "ovr")
    assert set(scores) == {"accuracy"}
    head, rows = predicted(table, tmp_path / "run")
    assert head == ["prediction", "score(a)", "score(b)", "score(c)"]
    assert all(row[0] == "abc"[int(np.argmax([float(each) for each in row[1:]]))] for row in rows)


def test_wild_targets_from_the_command_line(table, tmp_path):
    huber = trained(table, tmp_path / "run", "amount", "--loss", "huber", "--huber-width", 0.1)
    assert set(huber) == {"R2", "RMSE", "mean squared error"}
    squares = trained(table, tmp_path / "squares", "amount", "--regression")
    assert squares == trained(table, tmp_path / "same", "amount", "--loss", "squared")
    assert squares["RMSE"] < huber["RMSE"]


def test_what_does_not_fit_is_said(table, tmp_path):
    refused = {
        ("--loss", "hinge"): "loss = 'hinge'; it must be one of logistic, squared_hinge, squared, huber, poisson",
        ("--loss", "logistic", "--regression"): "--loss logistic is about classes, and --regression has none; leave one out",
        ("--loss", "poisson", "--class-weight", "balanced"): "--class-weight balanced is about classes, and --loss poisson",
        ("--loss", "poisson", "--k", "1"): "k = 1 takes first-order steps",
    }
    for options, words in refused.items():
        assert words in plain(call("train", table, "--target", "count", "--out", tmp_path, *options))
    for verb in ("inspect", "compare"):
        options = ["--out", tmp_path] if verb == "compare" else []
        done = plain(call(verb, table, "--target", "count", "--drop", "grade,amount", "--loss", "poisson", *options))
        assert "Poisson has no bound on its curvature" in done


def test_a_model_file_knows_its_loss(tmp_path):
    X, y = counted(rows=200)
    options = {"n_clients": 4, "max_iter": 30, "tol": 0}
    models = {
        "4, counts": ef.EF21PoissonRegressor(**options).fit(X, y),
        "4, two": ef.EF21Classifier(loss="squared_hinge", **options).fit(X, y > 1),
        "4, three": ef.EF21Classifier(loss="squared_hinge", multi_class="ovr", **options).fit(X, np.minimum(y, 2)),
        "2, wild": ef.EF21Regressor(loss="huber", **options).fit(X, y),
        "2, two": ef.EF21Classifier(**options).fit(X, y > 1),
    }
    for name, model in models.items():
        path = save(tmp_path / "model.npz", model, Indices(15, base=1), {})
        with np.load(path) as file:
            assert json.loads(file["about"].tobytes())["format"] == f"errorfeedback model {name[0]}"
        back = load(path).model
        assert np.array_equal(back.predict(X), model.predict(X))
        truth = model.predict(X).round()
        assert measured(back, back.decision(X), truth) == measured(model, model.decision(X), truth)
    svm = models["4, two"]
    assert measured(svm, svm.decision(X), y > 1)["AUC"] == roc_auc_score(y > 1, svm.decision_function(X))
