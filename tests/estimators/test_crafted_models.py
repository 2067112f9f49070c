"""A model file that somebody made on purpose, with a checksum that fits, is a model or a sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest
from crafting import DEEP, archive, crafted_array, crafted_tree, text_of

from errorfeedback.data.encoding import Category, Columns, Indices, Number
from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.estimators.model_file import _digest, load, save
from errorfeedback.estimators.poisson_regressor import EF21PoissonRegressor
from errorfeedback.estimators.regressor import EF21Regressor
from errorfeedback.estimators.scores import measured

COUNT = 300


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    X = np.random.default_rng(0).standard_normal((40, 4))
    table = Columns((Number("a", fill=0.5, marked=True), Category("b", ("x", "y"))))
    options = {"n_clients": 2, "max_iter": 20, "tol": 0}
    made = {
        "two": (EF21Classifier(**options).fit(X, np.where(X[:, 0] > 0, "yes", "no")), Indices(4, base=1)),
        "three": (EF21Classifier(**options).fit(X, np.digitize(X[:, 0], [-0.5, 0.5])), table),
        "rest": (EF21Classifier(multi_class="ovr", **options).fit(X, np.digitize(X[:, 0], [-0.5, 0.5])), table),
        "number": (EF21Regressor(**options).fit(X, X[:, 0]), table),
        "count": (EF21PoissonRegressor(**options).fit(X, np.floor(np.abs(3 * X[:, 0]))), table),
        "margins": (EF21Classifier(loss="squared_hinge", multi_class="ovr", **options).fit(X, np.arange(40) % 3), table),
    }
    return [save(folder / f"{name}.npz", model, kind, {"target": "t"}) for name, (model, kind) in made.items()]


def sealed(parts, **how):
    """The file of these parts, with the checksum that fits them."""
    return archive({**parts, "sha256": _digest(parts)}, **how)


def crafted(path, rng):
    with np.load(path) as file:
        parts = {name: file[name] for name in file.files if name != "sha256"}
    kind = rng.choice(["about", "array", "drop", "declared", "compressed", "extra"], p=[0.6, 0.3, 0.04, 0.02, 0.02, 0.02])
    if kind == "about":
        tree, what = crafted_tree(json.loads(parts["about"].tobytes()), rng)
        return sealed({**parts, "about": np.frombuffer(text_of(tree), dtype=np.uint8)}), what
    name = str(rng.choice([name for name in parts if kind != "array" or name != "about"]))
    if kind == "array":
        parts[name], what = crafted_array(parts[name], rng)
        try:
            return sealed(parts), f"{name}: {what}"
        except (TypeError, ValueError):  # no digest of objects
            return archive({**parts, "sha256": np.zeros(32, dtype=np.uint8)}), f"{name}: {what}"
    if kind == "drop":
        del parts[name]
    if kind == "extra":
        parts["more"] = np.ones(3)
    return sealed(parts, compressed=kind == "compressed", declared=name if kind == "declared" else None), f"{kind} {name}"


def attempt(path):
    """The model, or the sentence."""
    try:
        return load(path), ""
    except ValueError as error:
        return None, str(error)


def test_a_crafted_model_is_a_model_or_a_sentence(models, tmp_path):
    """And a model that is read predicts finite numbers."""
    read = 0
    for seed in range(COUNT):
        rng = np.random.default_rng(seed)
        content, what = crafted(models[seed % len(models)], rng)
        path = tmp_path / "crafted.npz"
        path.write_bytes(content)
        saved, refused = attempt(path)
        if saved is None:
            assert refused.startswith(f"{path}: damaged, or not a model of errorfeedback ("), what
            assert len(refused) < 600
            continue
        read += 1
        assert saved.model.coef_.shape[1] == saved.encoding.width == len(saved.encoding.names)
        scores = saved.model.decision(np.ones((3, saved.encoding.width)))
        assert np.isfinite(scores).all(), what
        said = saved.model.predict(np.ones((3, saved.encoding.width)))
        measured(saved.model, scores, np.minimum(said, 1e9) if saved.kind == "poisson" else said)  # exp may be infinite
    assert COUNT / 20 < read < COUNT / 2  # some changes do no harm (a version, a provenance), most do


BAD = {
    "at least two classes": {"classes": ["yes"]},
    "different ones in their order": {"classes": ["yes", "no"]},
    "neither names nor numbers": {"classes": ["no", 1]},
    "2 models where there must be 1": {"shape": [2, 4]},
    "1 models with 5 coefficients for 4 features": {"shape": [1, 5]},
    "is not an encoding": {"encoding": {"kind": "Number"}},
    "'loader'": {"kind": "loader"},
    "the format is 'errorfeedback model 9'": {"format": "errorfeedback model 9"},
    "which column is the target": {"provenance": {"target": 3}},
    "RecursionError": {"encoding": DEEP},
    "at most": {"shape": [1, 2**31 - 1], "encoding": {"kind": "Indices", "count": 2**31 - 1, "base": 1}},
}


@pytest.mark.parametrize("message", BAD)
def test_every_wrong_part_is_named(models, tmp_path, message):
    with np.load(models[0]) as file:
        parts = {name: file[name] for name in file.files if name != "sha256"}
    about = {**json.loads(parts["about"].tobytes()), **BAD[message]}
    if message.startswith("2 models"):
        parts["intercept"] = np.zeros(2)
    (tmp_path / "m.npz").write_bytes(sealed({**parts, "about": np.frombuffer(text_of(about), dtype=np.uint8)}))
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "m.npz")
