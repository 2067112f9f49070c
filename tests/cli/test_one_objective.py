"""`train`, `inspect`, `compare` and `fit` minimise the same objective over the same clients, whatever the input is."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file
from typer.testing import CliRunner

from errorfeedback.cli.app import app
from errorfeedback.cli.verbs._inputs import CLIENTS, Inputs
from errorfeedback.estimators.base import LinearEF21
from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.problems.base import setup_bits
from errorfeedback.problems.glm import GLM

VERBS = {
    "train": ["--rounds", "3", "--quiet"],
    "inspect": ["--rounds", "3", "--k", "1", "--json"],
    "compare": ["--rounds", "3"],
}
ROWS = 47  # no multiple of any number of clients here: a partition that discards rows is seen


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The same rows in every format, with two classes, three, and a number to predict."""
    pytest.importorskip("pyarrow")
    from pyarrow import csv as arrow  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    made, rng = tmp_path_factory.mktemp("same"), np.random.default_rng(0)
    A, shop = np.round(rng.normal(size=(ROWS, 4)) * [1, 100, 0.01, 1], 6), rng.choice(["a", "b", "c"], ROWS)
    two = (A[:, 0] + A[:, 3] > 0).astype(int)
    three = two + (A[:, 3] > 1)
    table = {**{f"x{j}": A[:, j] for j in range(4)}, "shop": shop, "two": two, "three": three, "number": 3.5 * A[:, 0]}
    write(made / "t.csv", table)
    parquet.write_table(arrow.read_csv(made / "t.csv"), made / "t.parquet")
    sparse.save_npz(made / "t.npz", sparse.csr_array(np.column_stack([A, two])))
    dump_svmlight_file(A, two, str(made / "t.svm"), zero_based=False)
    (made / "groups").write_text("\n".join(shop))
    (made / "parts").mkdir()
    for k, rows in enumerate(np.array_split(np.arange(ROWS), 3)):
        write(made / f"parts/{k}.csv", {name: column[rows] for name, column in table.items()})
    return made


def write(path, table):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))


COLUMNS = ["--only", "x0,x1,x2,x3"]
CASES = {
    "csv": ["t.csv", "--target", "two", *COLUMNS],
    "parquet": ["t.parquet", "--target", "two", *COLUMNS],
    "npz": ["t.npz"],
    "libsvm": ["t.svm"],
    "groups": ["t.svm", "--groups", "groups"],
    "client column": ["t.csv", "--target", "two", "--client-column", "shop", *COLUMNS],
    "folder": ["parts", "--target", "two", *COLUMNS],
    "folder with clients": ["parts", "--target", "two", "--client-column", "shop", *COLUMNS],
    "three classes": ["t.csv", "--target", "three", *COLUMNS],
    "three classes, each against the rest": ["t.csv", "--target", "three", "--multi-class", "ovr", *COLUMNS],
    "regression": ["t.csv", "--target", "number", "--regression", *COLUMNS],
    "options": [
        "t.svm",
        "--clients",
        "6",
        "--seed",
        "7",
        "--l1",
        "0.01",
        "--l2",
        "0.5",
        "--no-scale",
        "--intercept",
        "none",
    ],
    "exact": ["t.svm", "--intercept", "exact"],
}


def objectives(folder, tmp_path, monkeypatch, words, verbs=tuple(VERBS)):
    """What every one of these verbs minimises."""
    made, objective = {}, LinearEF21.objective
    places = [str(folder / word) if (folder / word).exists() else word for word in words]
    for verb in verbs:

        def spy(self, *args, verb=verb, **options):
            made[verb] = objective(self, *args, **options)
            return made[verb]

        monkeypatch.setattr(LinearEF21, "objective", spy)
        out = [] if verb == "inspect" else ["--out", str(tmp_path / verb)]
        done = CliRunner().invoke(app(), [verb, *places, *VERBS[verb], *out])
        assert done.exit_code == 0, done.output
    return made


@pytest.mark.parametrize("case", CASES)
def test_all_verbs_minimise_the_same_objective(folder, tmp_path, monkeypatch, case):
    found = objectives(folder, tmp_path, monkeypatch, CASES[case])
    first, rng = found["train"], np.random.default_rng(1)
    rows = first.problem if first.scale is None else first.problem.inner
    assert isinstance(rows, GLM)
    assert rows.A.shape[0] == ROWS
    assert rows.discarded_rows == 0
    for other in (found["inspect"], found["compare"]):
        assert other.clients.tolist() == first.clients.tolist()
        assert other.free == first.free
        assert setup_bits(other.problem) == setup_bits(first.problem)
        for _ in range(3):
            z = rng.normal(size=first.problem.d)
            assert other.value(z) == first.value(z)
            assert np.array_equal(other.problem.gradients_at(z), first.problem.gradients_at(z))
            assert np.array_equal(other.model(z), first.model(z))


def test_formats_and_the_estimator_agree(folder, tmp_path, monkeypatch):
    """The same rows in four formats and as arrays: the same clients, the same loss."""
    found = [
        objectives(folder, tmp_path / case, monkeypatch, CASES[case], ["train"])["train"]
        for case in ("csv", "parquet", "npz", "libsvm")
    ]
    A = sparse.load_npz(folder / "t.npz").toarray()
    found.append(EF21Classifier().objective(A[:, :4], A[:, 4]))
    z = np.random.default_rng(2).normal(size=found[0].problem.d)
    for other in found[1:]:
        assert len(other.clients) == CLIENTS
        assert other.value(z) == pytest.approx(found[0].value(z), rel=1e-12)


def test_another_seed_is_another_objective(folder, tmp_path, monkeypatch):
    """Negative control: the comparison sees who has which row."""
    first = objectives(folder, tmp_path / "0", monkeypatch, CASES["libsvm"], ["train"])["train"]
    other = objectives(folder, tmp_path / "1", monkeypatch, [*CASES["libsvm"], "--seed", "1"], ["train"])["train"]
    z = np.ones(first.problem.d)
    assert not np.array_equal(first.problem.gradients_at(z), other.problem.gradients_at(z))


def test_defaults_are_those_of_the_estimators():
    given = EF21Classifier().get_params()
    inputs = Inputs(data="x")
    names = ("l1", "l2", "scale", "own_models", "intercept")
    assert [getattr(inputs, name) for name in names] == [given[name] for name in names]
    assert given["n_clients"] == CLIENTS
    assert inputs.seed == given["random_state"]
