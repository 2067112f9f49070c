"""An exported model takes the raw table and says what ours says, to 1e-12: every loss, every kind of column."""

from __future__ import annotations

import csv
from importlib import import_module
from pathlib import Path

import joblib
import numpy as np
import pandas
import pytest
from commands import call, plain

import errorfeedback as ef
from errorfeedback.data.encoding import Category
from errorfeedback.data.read import read
from errorfeedback.data.reading import Missing, Reading
from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.estimators.model_file import MODEL, save
from errorfeedback.estimators.poisson_regressor import EF21PoissonRegressor
from errorfeedback.estimators.regressor import EF21Regressor

ROWS = 90
EXACT = 1e-12
MODELS = {
    "two classes": (EF21Classifier, ["a", "b"]),
    "softmax": (EF21Classifier, ["a", "b", "c"]),
    "one against the rest": (lambda: EF21Classifier(multi_class="ovr"), ["a", "b", "c"]),
    "whole classes": (EF21Classifier, [3, 5, 9]),
    "margins": (lambda: EF21Classifier(loss="squared_hinge"), ["a", "b"]),
    "many margins": (lambda: EF21Classifier(loss="squared_hinge", multi_class="ovr"), ["a", "b", "c"]),
    "squares": (EF21Regressor, None),
    "huber": (lambda: EF21Regressor(loss="huber"), None),
    "counts": (EF21PoissonRegressor, None),
}


def table(seed, classes, *, gaps):
    """Numbers, whole numbers, text and dates, all of them with gaps, that say something about the target."""
    rng = np.random.default_rng(seed)
    size, rooms = rng.normal(size=ROWS), rng.integers(1, 6, ROWS)
    colour = np.array(["red", "green", "blue"])[rng.integers(0, 3, ROWS)].astype(object)
    when = np.datetime64("2020-01-01") + rng.integers(0, 900, ROWS)
    score = size + 0.5 * rooms + (colour == "red") + rng.normal(size=ROWS)
    code = np.searchsorted(np.quantile(score, np.arange(1, len(classes or "ab")) / len(classes or "ab")), score)
    made = pandas.DataFrame({"size": size, "rooms": rooms, "colour": colour, "when": when.astype(str)})
    made["target"] = np.round(np.maximum(score, 0)) if classes is None else np.array(classes)[code]
    if gaps:
        for k, name in enumerate(("size", "rooms", "colour", "when")):
            made.loc[k::7, name] = np.nan
    return made


def trained(folder, name, *, missing=Missing.IMPUTE, gaps=True):
    """A run's folder, the path of new rows (one of them with text that training did not see), and those rows in pandas."""
    make, classes = MODELS[name]
    table(0, classes, gaps=gaps).to_csv(folder / "train.csv", index=False)
    data = read(str(folder / "train.csv"), Reading(missing=missing, target="target"))
    model = make().set_params(n_clients=3, tol=1e-3).fit(data.A, data.y)
    save(folder / MODEL, model, data.encoding, {"target": "target"})
    new = table(1, classes, gaps=gaps).drop(columns="target")
    new.loc[5, "colour"] = "violet"
    new.to_csv(folder / "new.csv", index=False)
    return ef.load_model(folder), folder / "new.csv", pandas.read_csv(folder / "new.csv")


def near(a, b):
    assert np.shape(a) == np.shape(b)
    return float(np.max(np.abs(np.asarray(a) - np.asarray(b)) / np.maximum(1, np.abs(b)))) <= EXACT


@pytest.mark.filterwarnings("ignore:Found unknown categories")
@pytest.mark.parametrize("name", MODELS)
def test_the_scikit_learn_twin_says_the_same_of_the_raw_table(name, tmp_path):
    saved, path, rows = trained(tmp_path, name)
    other, A = joblib.load(ef.export(tmp_path, "sklearn")), saved.features(str(path)).A
    assert type(other).__module__.startswith("sklearn")
    if not isinstance(saved.model, EF21Classifier):
        assert near(other.predict(rows), saved.predict(str(path)))
        return
    assert other.predict(rows).tolist() == saved.predict(str(path)).tolist()
    assert near(other.decision_function(rows), saved.model.decision_function(A))
    if saved.model.loss == "logistic":
        assert near(other.predict_proba(rows), saved.model.predict_proba(A))


def test_where_training_refused_missing_numbers_the_twin_does_too(tmp_path):
    saved, path, rows = trained(tmp_path, "two classes", missing=Missing.REFUSE, gaps=False)
    other = ef.to_sklearn(saved)
    assert near(other.decision_function(rows.drop(index=5)), np.delete(saved.model.decision(saved.features(str(path)).A), 5))
    with pytest.raises(ValueError, match="contains NaN"):
        other.predict(rows.assign(size=np.nan))


def test_how_numbers_and_dates_are_written_is_part_of_the_model_and_of_the_twin(tmp_path):
    """A decimal comma, days first, and a word among the numbers: said once, in training."""
    for seed, name in enumerate(("train.csv", "new.csv")):
        made = table(seed, ["a", "b"], gaps=True)
        made["when"] = pandas.to_datetime(made["when"]).dt.strftime("%d.%m.%Y")
        made["size"] = made["size"].map("{:.3f}".format).str.replace(".", ",").where(made.index % 7 > 0, "broken")
        made.to_csv(tmp_path / name, index=False, sep=";", decimal=",")
    said = Reading(missing=Missing.IMPUTE, decimal=",", date_format="%d.%m.%Y", number=("size",))
    data = read(str(tmp_path / "train.csv"), said)
    model = EF21Classifier(n_clients=3, tol=1e-3).fit(data.A, data.y)
    save(tmp_path / MODEL, model, data.encoding, {"target": "target"})
    saved = ef.load_model(tmp_path)
    ours = saved.model.predict_proba(read(str(tmp_path / "new.csv"), encoding=saved.encoding).A)
    theirs = ef.to_sklearn(saved).predict_proba(pandas.read_csv(tmp_path / "new.csv", sep=";", decimal=","))
    assert near(theirs, ours)
    assert np.ptp(ours[:, 0]) > 0.1


def test_a_model_of_a_matrix_is_a_plain_logistic_regression(tmp_path):
    (tmp_path / "rows.svm").write_text("\n".join(f"{k % 2} {k % 5 + 1}:1 {k % 3 + 6}:{k}" for k in range(30)))
    data = read(str(tmp_path / "rows.svm"))
    model = EF21Classifier(n_clients=2, tol=0.01).fit(data.A, data.y)
    save(tmp_path / MODEL, model, data.encoding, {})
    other = ef.to_sklearn(ef.load_model(tmp_path / MODEL))
    assert type(other).__name__ == "LogisticRegression"
    assert near(other.predict_proba(data.A), model.predict_proba(data.A))


def test_the_table_of_coefficients_has_every_digit_and_the_zeros_are_left_out(tmp_path):
    saved, _, _ = trained(tmp_path, "softmax")
    saved.model.coef_[1, 2] = 0.0
    save(tmp_path / MODEL, saved.model, saved.encoding, saved.provenance)
    done = call("export", tmp_path, "--to", "csv", "--out", tmp_path / "made" / "c.csv")
    assert done.exit_code == 0, done.output
    with (tmp_path / "made" / "c.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    names = ["(intercept)", *saved.encoding.names]
    back = np.zeros((3, len(names)))
    for line in lines:
        back["abc".index(line["class"]), names.index(line["feature"])] = float(line["coefficient"])
    assert np.array_equal(back, np.column_stack([saved.model.intercept_, saved.model.coef_]))
    assert len(lines) == np.count_nonzero(back) < back.size


def test_what_cannot_be_exported_is_a_sentence(tmp_path):
    trained(tmp_path, "squares")
    assert "to = 'pmml'; it must be one of csv, onnx, sklearn" in plain(call("export", tmp_path, "--to", "pmml"))
    done = call("export", tmp_path / "nowhere", "--to", "csv")
    assert done.exit_code == 2
    assert "no such folder or model file" in plain(done)


def test_text_that_onnx_cannot_tell_from_missing_text_is_refused():
    pytest.importorskip("onnx")
    graph = import_module("errorfeedback.exports.onnx_graph").Graph()
    with pytest.raises(ValueError, match="column 'colour' has empty text among its values and missing text too"):
        graph._part(Category("colour", ("", "red"), marked=True), np.ones((3, 1)))


def fed(rows, encoding):
    """What the graph takes: days since 1970 for dates, the empty string for text that is missing."""
    days = np.asarray(rows["when"].to_numpy(dtype=object, na_value=None), dtype="datetime64[D]")
    when = np.where(np.isnat(days), np.nan, days.astype(np.int64))
    text = rows["colour"].fillna("").to_numpy(dtype=object)
    values = {"size": rows["size"].to_numpy(float), "rooms": rows["rooms"].to_numpy(float), "colour": text, "when": when}
    return {column.name: values[column.name][:, None] for column in encoding.columns}


@pytest.mark.parametrize("name", MODELS)
def test_the_onnx_graph_says_the_same_of_the_raw_table(name, tmp_path):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    saved, path, rows = trained(tmp_path, name)
    session = runtime.InferenceSession(Path(ef.export(tmp_path, "onnx")).read_bytes())
    said = dict(
        zip([each.name for each in session.get_outputs()], session.run(None, fed(rows, saved.encoding)), strict=True)
    )
    A = saved.features(str(path)).A
    if not isinstance(saved.model, EF21Classifier):
        assert near(said["prediction"], saved.predict(str(path)))
        return
    assert said["label"].tolist() == saved.predict(str(path)).tolist()
    if saved.model.loss == "logistic":
        assert near(said["probabilities"], saved.model.predict_proba(A))
    else:
        assert near(said["scores"], saved.model.decision(A))
