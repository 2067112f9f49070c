"""Training as a user sees it: held-out rows, weights, scores, the report, and runs that go on."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from crafting import archive, crafted_tree
from crafting import text_of as text_of_tree
from typer.testing import CliRunner

from errorfeedback.cli._kept import keep, kept
from errorfeedback.cli.app import app
from errorfeedback.cli.verbs._training import Training
from errorfeedback.data.reading import Missing
from errorfeedback.estimators.held_out import check_some, held_out
from errorfeedback.estimators.model_file import load
from errorfeedback.problems.conversation import Seat, Side, alone, heard_by
from errorfeedback.runtime.server import Server
from errorfeedback.storage.checkpoint import Folder
from errorfeedback.storage.files import FORMAT, HEAD, DamagedError
from errorfeedback.storage.packing import pack


def call(*words):
    return CliRunner().invoke(app(), [str(word) for word in words])


def plain(done):
    """What was printed, without the box around an error and its line breaks."""
    return " ".join(done.output.replace("│", " ").split())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with a rare class, four shops of very different sizes, and weights."""
    made, rng = tmp_path_factory.mktemp("training"), np.random.default_rng(0)
    m = 600
    a, b = rng.standard_normal((2, m))
    score = a + 0.5 * b + 0.5 * rng.standard_normal(m)
    columns = {
        "a": a,
        "b": b,
        "weight": np.where(a > 0, 3, 1),
        "shop": rng.choice(["x", "y", "z", "tiny"], m, p=[0.6, 0.3, 0.09, 0.01]),
        "target": np.where(score > 1.5, "rare", "common"),
        "grade": np.where(score > 1, "good", np.where(score > -1, "fair", "poor")),
        "price": 3 * a - b + 10 + 0.1 * rng.standard_normal(m),
    }
    with (made / "data.csv").open("w", newline="") as file:
        csv.writer(file).writerows([list(columns), *zip(*columns.values(), strict=True)])
    return made


def trained(folder, out, *words):
    done = call("train", folder / "data.csv", "--quiet", *words, "--out", out)
    assert done.exit_code == 0, done.output
    return done, load(out / "model.npz").provenance


def drawn(code, clients, share, seed):
    return alone(lambda seat: held_out(code, clients, share, seed, seat))


def drawn_apart(code, clients, share, seed, cuts):
    """The same where the clients lie in several places."""
    number = np.unique(clients, return_inverse=True)[1]
    rows = [np.flatnonzero((lo <= number) & (number < hi)) for lo, hi in pairwise(cuts)]
    sides = [Side(held_out(code[mine], clients[mine], share, seed, Seat(k, len(rows)))) for k, mine in enumerate(rows)]
    for side in sides:
        side.hear(None)
    said, mask = [side.says for side in sides], np.zeros(len(code), dtype=bool)
    for k, (side, mine) in enumerate(zip(sides, rows, strict=True)):
        side.hear(heard_by(k, said))
        mask[mine] = side.result
    return mask


@pytest.mark.parametrize("share", [0.1, 0.2, 0.5])
def test_the_share_is_held_out_of_every_class_and_client(share):
    rng = np.random.default_rng(1)
    code, clients = rng.choice(3, 1000, p=[0.7, 0.25, 0.05]), rng.choice(["p", "q", "r"], 1000, p=[0.6, 0.3, 0.1])
    mask = drawn(code, clients, share, seed=0)
    assert mask.sum() == 1000 * share
    for k in range(3):
        assert abs(mask[code == k].sum() - share * (code == k).sum()) <= 1
        for name in "pqr":
            cell = (code == k) & (clients == name)
            assert abs(mask[cell].sum() - share * cell.sum()) <= 2
    assert not np.array_equal(mask, drawn(code, clients, share, seed=1))
    order = np.argsort(clients, kind="stable")  # as nodes have them: client after client
    assert np.array_equal(mask[order], drawn(code[order], clients[order], share, seed=0))
    for cuts in ((0, 1, 3), (0, 2, 3), (0, 1, 2, 3)):
        assert np.array_equal(mask, drawn_apart(code, clients, share, 0, cuts))


def test_no_class_and_no_client_loses_all_its_rows():
    code, clients = np.array([0] * 20 + [1]), np.array([0] * 10 + [1] * 9 + [2, 3])
    for seed in range(20):
        mask = drawn(code, clients, 0.5, seed=seed)
        assert not mask[-2:].any()
        assert mask.any()
        assert np.array_equal(mask, drawn_apart(code, clients, 0.5, seed, (0, 1, 3, 4)))
    with pytest.raises(ValueError, match="between 0 and 1"):
        drawn(code, clients, 1.5, seed=0)
    with pytest.raises(ValueError, match=r"valid = 0.2 of 3 rows holds out none"):
        check_some(drawn(code[:3], clients[:3], 0.2, seed=0).sum(), 0.2, 3)


def test_valid_takes_a_share_and_the_report_says_so(folder, tmp_path):
    done, facts = trained(folder, tmp_path, "--client-column", "shop", "--drop", "grade,price,weight", "--valid", "0.2")
    assert facts["rows"] == 480
    assert "120 of 600 (--valid 0.2, drawn with seed 0 from every class and client)" in facts["held-out rows"]
    assert {"accuracy", "log loss", "AUC"} == set(facts["held out (0.2)"]) == set(facts["training"])
    assert f"held out (0.2): accuracy {facts['held out (0.2)']['accuracy']:.4g}" in done.output
    assert f"training: accuracy {facts['training']['accuracy']:.4g}" in done.output
    assert facts["held out (0.2)"]["AUC"] > 0.9
    history = json.loads((tmp_path / "history.json").read_text())
    assert history["round"] == list(range(facts["rounds"] + 1))  # every round, where they are fewer than 1,000
    curve = history["validation"]
    assert min(curve) <= facts["validation loss"] < facts["validation loss of a constant"]
    assert "0.2 of 3 rows" in plain(call("train", tiny(tmp_path), "--valid", "0.2", "--out", tmp_path / "no"))
    assert "valid = 1.5" in plain(call("train", folder / "data.csv", "--valid", "1.5", "--out", tmp_path / "no"))


def tiny(folder):
    (folder / "tiny.csv").write_text("a,target\n1,x\n2,y\n3,y\n")
    return folder / "tiny.csv"


def test_weights_are_trained_and_scored_with(folder, tmp_path):
    """A weight of 3 is a row three times."""
    rows = list(csv.DictReader((folder / "data.csv").read_text().splitlines()))
    with (tmp_path / "repeated.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(row for row in rows for _ in range(int(row["weight"])))
    options = ["--only", "a,b", "--clients", "3", "--l2", 0.01, "--tolerance", 1e-9, "--rounds", 5000]
    weighted = trained(folder, tmp_path / "w", *options, "--weight-column", "weight")[1]["training"]
    repeated = call("train", tmp_path / "repeated.csv", *options, "--out", tmp_path / "r")
    assert repeated.exit_code == 0, repeated.output
    assert weighted == pytest.approx(load(tmp_path / "r/model.npz").provenance["training"], abs=2e-3)
    plain_run = trained(folder, tmp_path / "p", *options)[1]["training"]
    assert abs(plain_run["log loss"] - weighted["log loss"]) > 2e-3  # negative control
    again = call("evaluate", tmp_path / "w", folder / "data.csv", "--weight-column", "weight", "--json")
    assert json.loads(again.stdout) == pytest.approx(weighted)


def test_balanced_classes_find_more_of_the_rare_one(folder, tmp_path):
    found = {}
    for name, words in {"plain": (), "balanced": ("--class-weight", "balanced")}.items():
        trained(folder, tmp_path / name, "--only", "a,b", *words)
        table = list(csv.DictReader(call("predict", tmp_path / name, folder / "data.csv").stdout.splitlines()))
        found[name] = sum(row["prediction"] == "rare" for row in table)
    assert found["balanced"] > 1.5 * found["plain"] > 0
    for words, message in {
        ("--class-weight", "heavy"): "class_weight = 'heavy'; it must be None, 'balanced', or a dict",
        ("--class-weight", "balanced", "--regression", "--target", "price"): "--regression has none",
    }.items():
        assert message in plain(call("train", folder / "data.csv", *words, "--out", tmp_path / "no"))


def text_of(page):
    """The words of a page's body, without scripts."""
    body = re.sub(r"<(script|style).*?</\1>", " ", page.read_text(), flags=re.S)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def test_the_report_names_scores_classes_and_what_was_sent(folder, tmp_path):
    options = ["--client-column", "shop", "--only", "a,b", "--valid", "0.2"]
    trained(folder, tmp_path / "two", *options)
    two = text_of(tmp_path / "two/report.html")
    for words in ("held out (0.2): 120 rows", "AUC", "kB up per client", "loss without the penalty", "speaks for", "rare"):
        assert words in two
    for words in ("a power of two for every feature", "round 0: the client's loss", "trained with every number in"):
        assert words in two.replace("&#x27;", "'")
    trained(folder, tmp_path / "top1", *options, "--k", 1)
    assert "the client's smoothness" in text_of(tmp_path / "top1/report.html").replace("&#x27;", "'")
    trained(folder, tmp_path / "three", *options, "--target", "grade")
    assert "class feature weight" in text_of(tmp_path / "three/report.html")
    _, facts = trained(folder, tmp_path / "price", *options, "--target", "price", "--regression")
    assert facts["held out (0.2)"]["R2"] > 0.99
    assert "RMSE" in text_of(tmp_path / "price/report.html")
    page = (tmp_path / "two/report.html").read_text()
    assert page.count('"name":"held out"') == page.count('"name":"training"') == 1


def test_what_has_not_converged_is_said(folder, tmp_path):
    done, _ = trained(folder, tmp_path, "--only", "a,b", "--rounds", 5)
    assert "Warning: not converged: all 5 rounds were run" in done.output
    assert "not converged" in text_of(tmp_path / "report.html")
    assert "Warning" not in trained(folder, tmp_path / "enough", "--only", "a,b")[0].output


class KilledError(Exception):
    pass


RESUMED = {
    "plain": (3, ()),
    "top 1": (20, ("--k", "1")),
    "held out": (3, ("--valid", "0.2", "--class-weight", "balanced")),
    "top 1, held out": (20, ("--k", "1", "--valid", "0.2", "--class-weight", "balanced")),
}


@pytest.mark.parametrize("case", RESUMED)
def test_resume_ends_as_train_does(folder, tmp_path, monkeypatch, case):
    at, words = RESUMED[case]
    options = ["--client-column", "shop", "--only", "a,b", *words]
    _, facts = trained(folder, tmp_path / "whole", *options)
    real = Server._record

    def killed(self, t, *rest):
        if t >= at:
            raise KilledError
        return real(self, t, *rest)

    monkeypatch.setattr(Server, "_record", killed)
    monkeypatch.setattr("errorfeedback.cli.train.SECONDS", 1e-9)
    monkeypatch.setattr("sys.argv", ["errorfeedback", "train", "data.csv"])
    monkeypatch.chdir(folder)
    done = call("train", "data.csv", *options, "--checkpoint", tmp_path / "state", "--out", tmp_path / "out")
    assert isinstance(done.exception, KilledError)
    assert Folder(tmp_path / "state").rounds()
    monkeypatch.setattr(Server, "_record", real)
    monkeypatch.setattr("sys.argv", ["errorfeedback", "resume"])
    monkeypatch.chdir(tmp_path)  # somewhere else
    again = call("resume", tmp_path / "state")
    assert again.exit_code == 0, again.output
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "model.npz",
        "history.json",
        "clients.json",
        "report.html",
    }
    resumed = load(tmp_path / "out/model.npz")
    assert np.array_equal(resumed.model.coef_, load(tmp_path / "whole/model.npz").model.coef_)
    assert {**resumed.provenance, "command": ""} == {**facts, "command": ""}
    assert resumed.provenance["command"] == "errorfeedback train data.csv"
    other = call("train", folder / "data.csv", *options, "--k", 2, "--checkpoint", tmp_path / "state", "--out", tmp_path)
    assert f"--k was {1 if '--k' in words else 'not given'} and is 2; use the same, or another folder" in plain(other)


def test_data_that_does_not_fit_the_model_is_a_sentence(folder, tmp_path):
    trained(folder, tmp_path / "price", "--only", "a,b", "--target", "price", "--regression", "--rounds", 5)
    trained(folder, tmp_path / "class", "--only", "a,b", "--rounds", 5)
    (tmp_path / "rows.svm").write_text("1 1:1\n")
    (tmp_path / "no-b.csv").write_text("a,target\n1,rare\n")
    (tmp_path / "other.csv").write_text("a,b,target\n1,2,never\n")
    bad = {
        "a regression predicts numbers": ["evaluate", tmp_path / "price", folder / "data.csv", "--target", "grade"],
        "the target has 'common', and a regression": [
            "train",
            folder / "data.csv",
            "--regression",
            "--out",
            tmp_path / "no",
        ],
        "but the model knows the classes": ["evaluate", tmp_path / "class", tmp_path / "other.csv"],
        "the model was trained on a table": ["evaluate", tmp_path / "class", tmp_path / "rows.svm"],
        "'b'": ["predict", tmp_path / "class", tmp_path / "no-b.csv"],
        "no weight column 'size'": ["evaluate", tmp_path / "class", folder / "data.csv", "--weight-column", "size"],
        "name it with --target": ["evaluate", tmp_path / "class", folder / "data.csv", "--target", "none"],
    }
    for message, words in bad.items():
        done = call(*words)
        assert done.exit_code == 2, (message, done.output)
        assert message in plain(done)


def test_a_crafted_command_is_refused(tmp_path):
    """What `train` was asked for, with one part changed and a checksum that fits."""
    asked = Training(data="a.csv", out=tmp_path, drop=["x"], network=["up=1Mbit/s"], valid="0.2", missing=Missing.DROP)
    keep(tmp_path, asked, "errorfeedback train")
    assert kept(tmp_path)[0].drop == ["x"]
    tree, arrays = pack({"options": asked, "command": "errorfeedback train"})
    refused = 0
    for seed in range(100):
        text = text_of_tree(crafted_tree(tree, np.random.default_rng(seed))[0])
        body = archive({"arr_0": np.frombuffer(text, dtype=np.uint8)})
        (tmp_path / "training.ef").write_bytes(HEAD % FORMAT + hashlib.sha256(body).digest() + body)
        try:
            assert isinstance(kept(tmp_path)[0].out, Path)
        except DamagedError:
            refused += 1
    assert not arrays
    assert refused > 50
