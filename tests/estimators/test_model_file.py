"""Model files: small for wide models, and readable from the version before."""

from __future__ import annotations

import json

import numpy as np
import pytest

from errorfeedback.data.encoding import Category, Columns, Number
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
