"""Where LIBSVM indices start is decided once, from the training data, and kept: a later file is not shifted by a column."""

from __future__ import annotations

import json

import numpy as np
import pytest
from commands import call, plain

import errorfeedback as ef
from errorfeedback.data.encoding import Indices
from errorfeedback.data.parts import read_folder
from errorfeedback.data.read import read
from errorfeedback.data.reading import Reading
from errorfeedback.estimators.model_file import load
from errorfeedback.problems.conversation import alone


def lines(columns, base, m=60, seed=0):
    """The label is the sign of column `columns[-1]`."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((m, len(columns)))
    words = [[f"{j + base}:{value:.4f}" for j, value in zip(columns, row, strict=True)] for row in rows]
    return "".join(" ".join(["1" if row[-1] > 0 else "-1", *each]) + "\n" for row, each in zip(rows, words, strict=True))


@pytest.mark.parametrize("base", [0, 1])
def test_a_test_file_without_the_first_feature_is_not_shifted(tmp_path, base):
    (tmp_path / "train").write_text(lines([0, 1, 2], base))
    (tmp_path / "test").write_text(lines([1, 2], base, seed=1))
    done = call("train", tmp_path / "train", "--out", tmp_path / "run", "--quiet", "--rounds", 200)
    assert f"indices start at {base}" in plain(done)
    assert load(tmp_path / "run/model.npz").encoding == Indices(3, base)
    scores = json.loads(call("evaluate", tmp_path / "run", tmp_path / "test", "--json").stdout)
    assert scores["accuracy"] > 0.95  # 0.53 where index 1 was taken for the first feature


def test_every_part_of_a_folder_has_the_same_base(tmp_path):
    (tmp_path / "a").write_text("1 0:1 1:2\n")
    (tmp_path / "b").write_text("-1 1:3 2:4\n")
    found = alone(lambda seat: read_folder(str(tmp_path), Reading(), seat))
    assert found.A.toarray().tolist() == [[1, 2, 0], [0, 3, 4]]
    assert found.encoding == Indices(3, base=0)


def test_a_file_that_contradicts_the_encoding_is_refused_with_its_line(tmp_path):
    (tmp_path / "data").write_text("1 1:1\n-1 # nothing\n1 0:2 1:1\n")
    with pytest.raises(ValueError, match="data, line 3: index 0, but indices start at 1"):
        read(str(tmp_path / "data"), encoding=Indices(4, base=1))
    with pytest.raises(ValueError, match="line 3: index 0, but indices start at 1"):
        ef.load(tmp_path / "data", index_base=1)
    with pytest.raises(ValueError, match="index base 0, but the indices of the training data start at 1"):
        read(str(tmp_path / "data"), Reading(index_base=0), encoding=Indices(4, base=1))


def test_the_base_can_be_given(tmp_path):
    (tmp_path / "data").write_text("1 1:1 3:2\n")
    assert ef.load(tmp_path / "data").A.toarray().tolist() == [[1, 0, 2]]
    assert ef.load(tmp_path / "data", index_base=0).A.toarray().tolist() == [[0, 1, 0, 2]]
    assert ef.load(tmp_path / "data", index_base=0, features=5).A.shape == (1, 5)
    assert list(read(str(tmp_path / "data"), Reading(index_base=0)).encoding.names) == [f"index {j}" for j in range(4)]
    with pytest.raises(ValueError, match="index_base = 2"):
        Reading(index_base=2)


def test_features_that_training_did_not_have_are_ignored_with_a_count(tmp_path):
    (tmp_path / "data").write_text("1 1:1 7:1 9:1\n-1 2:5\n1 8:1\n")
    found = read(str(tmp_path / "data"), encoding=Indices(3, base=1))
    assert found.A.toarray().tolist() == [[1, 0, 0], [0, 5, 0], [0, 0, 0]]
    assert found.notes == ("data: 3 values in 2 rows are of features that training did not have (indices above 3); ignored",)
