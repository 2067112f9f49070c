"""More than two classes: scikit-learn's multinomial regression by default, one against the rest on demand; in Python, from
the command line, and from files of this and other versions."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from commands import call, plain
from scipy.special import log_softmax
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from errorfeedback.data.encoding import Indices
from errorfeedback.estimators.class_models import LOGISTIC, LOSSES, MULTI_CLASS
from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.estimators.model_file import load, save

L2 = 0.02
NAMES = np.array(["ant", "bee", "cat", "dog"])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 6)) * [1, 1, 10, 1, 0.1, 1]
    scores = X / [1, 1, 10, 1, 0.1, 1] @ rng.standard_normal((6, 4)) + [1.0, 0.0, 0.0, -1.0]
    return X, NAMES[(scores + rng.gumbel(size=scores.shape)).argmax(axis=1)], rng.uniform(0.2, 2.0, 300)


def fitted(X, y, w=None, **options):
    return EF21Classifier(**{"n_clients": 5, "k": 8, "l2": L2, "max_iter": 6000, "tol": 0.0} | options).fit(
        X, y, sample_weight=w
    )


@pytest.mark.parametrize("weights", [None, "rows", "balanced"])
def test_the_model_and_its_probabilities_are_scikit_learns(data, weights):
    X, y, w = data
    w = w if weights == "rows" else np.ones(len(y))
    balanced = {"class_weight": "balanced"} if weights == "balanced" else {}
    ours = fitted(X, y, w, **balanced)
    total = np.sum(w * ours.class_weight_[np.searchsorted(NAMES, y)])
    theirs = LogisticRegression(C=1 / (L2 * total), tol=1e-10, max_iter=10_000, **balanced).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=3e-3)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=2e-3)
    assert np.array_equal(ours.classes_, theirs.classes_)
    assert ours.coef_.shape == (4, 6)
    assert ours.multi_class_ == "multinomial"


def test_one_against_the_rest_is_scikit_learns(data):
    X, y, _ = data
    ours = fitted(X, y, multi_class="ovr")
    theirs = OneVsRestClassifier(LogisticRegression(C=1 / (L2 * len(y)), tol=1e-10, max_iter=10_000)).fit(X, y)
    np.testing.assert_allclose(ours.coef_, np.vstack([each.coef_ for each in theirs.estimators_]), atol=3e-3)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=2e-3)


def test_two_classes_are_one_logistic_model_whatever_is_asked_for(data):
    X, y, _ = data
    two = np.where(y == "ant", "yes", "no")
    a, b = (fitted(X, two, multi_class=kind, max_iter=50) for kind in MULTI_CLASS)
    assert np.array_equal(a.coef_, b.coef_)
    assert a.coef_.shape == (1, 6)


def test_the_rows_are_not_stacked(data):
    X, y, _ = data
    for kind in MULTI_CLASS:
        objective = EF21Classifier(multi_class=kind).objective(X, y)
        assert objective.problem.inner.A.shape == (300, 7)
        assert objective.problem.d == 4 * 7
        assert objective.free == [24, 25, 26, 27]
        names = objective.names([f"x{j}" for j in range(6)], NAMES)
        assert list(names)[:5] == ["ant: x0", "bee: x0", "cat: x0", "dog: x0", "ant: x1"]
        assert names[27] == "dog: intercept"


def test_a_warm_start_goes_on_from_the_last_model(data):
    X, y, _ = data
    model = fitted(X, y, max_iter=300, warm_start=True)
    loss = model.loss_
    assert model.fit(X, y).history_["f"][0] == pytest.approx(loss, rel=1e-9)


def test_the_held_out_loss_is_the_log_loss(data):
    X, y, w = data
    model = EF21Classifier(n_clients=5, k=8, l2=L2, max_iter=200, tol=0).fit(
        X[:200], y[:200], valid=(X[200:], y[200:], w[200:])
    )
    logs = log_softmax(model.decision_function(X[200:]), axis=1)[np.arange(100), np.searchsorted(NAMES, y[200:])]
    assert model.validation_loss_ == pytest.approx(-np.average(logs, weights=w[200:]), rel=1e-9)


def test_logs_are_logarithms_of_the_probabilities():
    scores = 5 * np.random.default_rng(0).standard_normal((30, 4))
    for kind in LOSSES[LOGISTIC].many.values():
        np.testing.assert_allclose(np.exp(kind.logs(scores)), kind.probabilities(scores), rtol=1e-12)
        np.testing.assert_allclose(kind.probabilities(scores).sum(axis=1), 1.0)


def test_what_multi_class_may_be(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="multi_class = 'crammer_singer'; it must be one of 'multinomial', 'ovr'"):
        EF21Classifier(multi_class="crammer_singer").fit(X, y)


def about(path):
    with np.load(path) as file:
        return json.loads(file["about"].tobytes())


@pytest.mark.parametrize("kind", MULTI_CLASS)
def test_a_model_file_gives_back_the_model(data, tmp_path, kind):
    X, y, _ = data
    model = fitted(X, y, multi_class=kind, max_iter=50)
    path = save(tmp_path / "m.npz", model, Indices(6, base=1), {})
    back = load(path).model
    assert np.array_equal(back.predict_proba(X), model.predict_proba(X))
    assert (back.multi_class_, back.multi_class) == (kind, kind)


def test_older_versions_read_what_they_know_and_refuse_a_softmax_model(data, tmp_path):
    """They take a model of many classes of format 2 for one against the rest, and say of any other format that they do not
    read it."""
    X, y, _ = data
    for kind, labels, form in (("multinomial", y, 3), ("ovr", y, 2), ("multinomial", y == "ant", 2)):
        path = save(tmp_path / "m.npz", fitted(X, labels, multi_class=kind, max_iter=5), Indices(6, base=1), {})
        assert about(path)["format"] == f"errorfeedback model {form}"


def rows(path, data):
    X, y, _ = data
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"x{j}" for j in range(6)), "shop", "kind"])
        writer.writerows([*x, f"shop {i % 7}", label] for i, (x, label) in enumerate(zip(X.tolist(), y, strict=True)))
    return path


@pytest.mark.parametrize("kind", MULTI_CLASS)
def test_train_evaluate_and_predict(data, tmp_path, kind):
    table = rows(tmp_path / "t.csv", data)
    words = ["--target", "kind", "--client-column", "shop", "--valid", "0.2", "--k", 8, "--multi-class", kind]
    done = call("train", table, *words, "--quiet", "--rounds", 400, "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    model = load(tmp_path / "run/model.npz").model
    assert model.multi_class_ == kind
    judged = plain(call("evaluate", tmp_path / "run", table, "--target", "kind"))
    X, y, _ = data
    assert f"accuracy: {np.mean(model.predict(X) == y):.6g}" in judged
    said = call("predict", tmp_path / "run", table, "--out", tmp_path / "said.csv")
    assert said.exit_code == 0, said.output
    with (tmp_path / "said.csv").open() as file:
        head, *lines = csv.reader(file)
    assert head == ["prediction", *(f"p({name})" for name in NAMES)]
    assert [line[0] for line in lines] == model.predict(X).tolist()
    np.testing.assert_allclose(np.array([line[1:] for line in lines], dtype=float), model.predict_proba(X), rtol=1e-12)
    assert "dog" in (tmp_path / "run/report.html").read_text()


def test_a_regression_has_no_classes(data, tmp_path):
    table = rows(tmp_path / "t.csv", data)
    done = call("train", table, "--regression", "--multi-class", "ovr", "--target", "x0", "--out", tmp_path / "run")
    assert "--multi-class ovr is about classes, and --regression has none; leave one out" in plain(done)
