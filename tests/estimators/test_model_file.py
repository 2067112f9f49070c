"""Model files: small for wide models, readable from the version before, and a sentence for what is crafted to harm."""

from __future__ import annotations

import json

import numpy as np
import pytest

from errorfeedback.data.encoding import Category, Columns, Indices, Number
from errorfeedback.data.read import read
from errorfeedback.data.reading import Missing, Reading
from errorfeedback.estimators import model_file
from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.estimators.model_file import load, save


def fitted(X, y):
    return EF21Classifier(n_clients=2, tol=0.01).fit(X, y)


def write(path, about, **parts):
    """A file with a right checksum, whatever is in it."""
    parts["about"] = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
    np.savez(path, **parts, sha256=model_file._digest(parts))
    return path


def test_a_model_of_ten_million_features_is_as_small_as_its_weights(tmp_path):
    """With a name for every possible index it had 237 MB."""
    lines = [f"{k % 2} {k + 1}:1 {10**7 - k}:1" for k in range(14)]
    (tmp_path / "wide").write_text("\n".join(lines))
    data = read(str(tmp_path / "wide"))
    model = fitted(data.A, data.y)
    path = save(tmp_path / "m.npz", model, data.encoding, {})
    assert path.stat().st_size < 10_000
    back = load(path)
    assert np.array_equal(back.model.predict_proba(data.A), model.predict_proba(data.A))
    assert back.encoding.names[-1] == "index 10000000"
    assert back.encoding.names[:2] == ["index 1", "index 2"]


def before(path, encoding, coef):
    about = {"format": "errorfeedback model 1", "version": "0.1.0", "kind": "classifier", "classes": [0, 1], "scaling": True}
    about |= {"encoding": encoding, "names": [], "provenance": {"target": "t"}}
    return write(path, about, coef=np.atleast_2d(coef), intercept=np.zeros(1))


def test_a_table_model_of_the_version_before_is_read(tmp_path):
    columns = [["size", None], ["colour", ["blue", "red"]]]
    saved = load(before(tmp_path / "m.npz", {"width": 3, "columns": columns}, [1.0, 2.0, 3.0]))
    assert saved.encoding == Columns((Number("size"), Category("colour", ("blue", "red"))))
    assert saved.model.coef_.tolist() == [[1, 2, 3]]
    (tmp_path / "new.csv").write_text("size,colour\n,red\n")
    with pytest.raises(ValueError, match="of a version that kept no medians"):
        read(str(tmp_path / "new.csv"), Reading(missing=Missing.IMPUTE), encoding=saved.encoding)


def test_a_libsvm_model_of_the_version_before_needs_the_base(tmp_path):
    saved = load(before(tmp_path / "m.npz", {"width": 3, "columns": []}, [1.0, 2.0, 3.0]))
    (tmp_path / "new").write_text("1 1:5\n")
    with pytest.raises(ValueError, match=r"did not keep whether the indices .* say --index-base 0 or --index-base 1"):
        read(str(tmp_path / "new"), encoding=saved.encoding)
    assert read(str(tmp_path / "new"), Reading(index_base=0), encoding=saved.encoding).A.toarray().tolist() == [[0, 5, 0]]


def crafted():
    about = {"format": model_file.FORMAT, "kind": "classifier", "classes": [0, 1], "shape": [1, 3], "provenance": {}}
    about |= {"encoding": {"kind": "Indices", "count": 3, "base": 1}}
    parts = {"coef": np.ones(2), "places": np.array([0, 2]), "intercept": np.zeros(1)}
    yield "whole", about, parts
    for key in about:
        yield f"without {key}", {k: v for k, v in about.items() if k != key}, parts
        for value in (None, 7, "x", [], {}, [[1]]):
            if not (key in ("provenance",) and value == {}):
                yield f"{key} = {value}", {**about, key: value}, parts
    for key, value in {
        "coef": [np.ones(3), np.array(["a", "b"]), np.ones((2, 1)), np.array([np.nan, 1.0])],
        "places": [np.array([0, 3]), np.array([-1, 0]), np.array([0.0, 1.0]), np.array([0])],
        "intercept": [np.zeros(2), np.array(["a"]), np.zeros(()), np.array([np.inf])],
    }.items():
        for k, each in enumerate(value):
            yield f"{key} {k}", about, {**parts, key: each}
    yield "huge", {**about, "shape": [1, 10**10]}, parts
    yield (
        "huge and consistent",
        {**about, "shape": [10**9, 2**31 - 1], "encoding": {**about["encoding"], "count": 2**31 - 1}},
        parts,
    )
    yield "not an object", [1, 2], parts


CRAFTED = {name: (about, parts) for name, about, parts in crafted()}


@pytest.mark.parametrize("name", [name for name in CRAFTED if name != "whole"])
def test_a_crafted_file_with_a_right_checksum_is_a_sentence(tmp_path, name):
    about, parts = CRAFTED[name]
    with pytest.raises(ValueError, match=r"m.npz: damaged, or not a model of errorfeedback"):
        load(write(tmp_path / "m.npz", about, **parts))


def test_the_same_file_without_what_was_crafted_is_read(tmp_path):
    about, parts = CRAFTED["whole"]
    saved = load(write(tmp_path / "m.npz", about, **parts))
    assert saved.encoding == Indices(3, base=1)
    assert saved.model.coef_.tolist() == [[1, 0, 1]]
