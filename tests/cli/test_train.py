"""train, predict and evaluate from the command line; the model file; bad input."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from commands import call, plain
from scipy import sparse

from errorfeedback.cli._run_files import history_of
from errorfeedback.data.encoding import Indices
from errorfeedback.data.read import read
from errorfeedback.data.reading import Reading
from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.estimators.model_file import load, save


def rows(m, seed=0):
    rng = np.random.default_rng(seed)
    colour, size, noise = rng.choice(["red", "green", "blue"], m), rng.standard_normal(m), rng.standard_normal(m)
    shop = rng.choice(["a", "b", "c", "d"], m)
    sold = np.where(2.0 * (colour == "red") + size - 0.5 + 0.3 * noise > 0, "yes", "no")
    return [{"colour": c, "size": s, "shop": p, "target": t} for c, s, p, t in zip(colour, size, shop, sold, strict=True)]


def write(path, table, delimiter=","):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(table)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("train")
    write(made / "train.csv", rows(400))
    write(made / "test.tsv", rows(200, seed=1), delimiter="\t")
    done = call("train", made / "train.csv", "--client-column", "shop", "--valid", made / "test.tsv", "--out", made / "run")
    assert done.exit_code == 0, done.output
    return made


def test_train_writes_model_history_and_report(folder):
    assert {p.name for p in (folder / "run").iterdir()} == {"model.npz", "history.json", "clients.json", "report.html"}
    history = json.loads((folder / "run/history.json").read_text())
    assert history["f"][-1] < history["f"][0] < 0.5 * np.log(2)  # from the mean of the shops' own models
    assert load(folder / "run/model.npz").provenance["clients"] == 4


def test_a_history_is_strict_json_and_reads_as_it_did_with_nan(folder, tmp_path):
    written = (folder / "run/history.json").read_text()
    columns = json.loads(written, parse_constant=pytest.fail)  # NaN and Infinity are no JSON
    (tmp_path / "history.json").write_text(written.replace("null", "NaN"))  # as earlier versions wrote it
    ours, former = history_of(folder / "run"), history_of(tmp_path)
    assert [None if np.isnan(value) else value for value in ours["c_t"]] == columns["c_t"]
    assert None in columns["c_t"]
    for name in columns:
        np.testing.assert_array_equal(ours[name], former[name])


def test_text_columns_are_one_hot_and_the_client_column_is_left_out(folder):
    found = read(str(folder / "train.csv"), Reading(client_column="shop"))
    assert list(found.encoding.names) == ["colour=blue", "colour=green", "colour=red", "size"]
    assert found.A.shape == (400, 4)
    assert set(found.A[:, [0, 1, 2]].sum(axis=1).tolist()) == {1.0}


def test_evaluate_and_predict_agree(folder):
    scores = json.loads(call("evaluate", folder / "run", folder / "test.tsv", "--json").stdout)
    assert scores["accuracy"] > 0.85
    assert scores["AUC"] > 0.9
    said = list(csv.DictReader(io.StringIO(call("predict", folder / "run", folder / "test.tsv").stdout)))
    truth = [row["target"] for row in rows(200, seed=1)]
    assert np.mean([row["prediction"] == t for row, t in zip(said, truth, strict=True)]) == pytest.approx(scores["accuracy"])
    assert float(said[0]["p(no)"]) + float(said[0]["p(yes)"]) == pytest.approx(1.0)


def test_a_value_that_training_did_not_see_is_accepted(folder, tmp_path):
    table = [{**row, "colour": "violet"} for row in rows(5)]
    done = call("predict", folder / "run", write(tmp_path / "new.csv", table))
    assert done.exit_code == 0, done.output


def test_npz_libsvm_and_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    from pyarrow import csv as arrow_csv  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    parquet.write_table(arrow_csv.read_csv(write(tmp_path / "t.csv", rows(60))), tmp_path / "t.parquet")
    same = read(str(tmp_path / "t.parquet"))
    assert np.array_equal(same.A.toarray(), read(str(tmp_path / "t.csv")).A.toarray())
    sparse.save_npz(tmp_path / "m.npz", sparse.csr_array(np.column_stack([np.eye(4), [0, 1, 0, 1]])))
    npz = read(str(tmp_path / "m.npz"))
    assert npz.y.tolist() == [0, 1, 0, 1]
    assert npz.A.shape == (4, 4)
    (tmp_path / "plain").write_text("1 1:1 3:2\n-1 2:1\n" * 10)
    done = call("train", tmp_path / "plain", "--clients", "2", "--rounds", "50", "--budget", "1kB", "--out", tmp_path / "r")
    assert done.exit_code == 0, done.output
    assert json.loads(call("evaluate", tmp_path / "r", tmp_path / "plain", "--json").stdout)["accuracy"] == 1.0


def test_groups_come_from_a_file(folder, tmp_path):
    (tmp_path / "groups").write_text("\n".join(row["shop"] for row in rows(400)))
    done = call("train", folder / "train.csv", "--groups", tmp_path / "groups", "--rounds", 20, "--out", tmp_path / "r")
    assert "clients: 4" in done.output
    (tmp_path / "groups").write_text("a\nb\n")
    done = call("train", folder / "train.csv", "--groups", tmp_path / "groups", "--out", tmp_path / "r")
    assert done.exit_code == 2
    assert "names 2 clients" in plain(done)
    (tmp_path / "groups").write_text("a\n\n" * 200)
    assert "line 2 is empty" in plain(
        call("train", folder / "train.csv", "--groups", tmp_path / "groups", "--out", tmp_path)
    )


def test_the_scores_of_training_are_those_of_evaluate(folder):
    facts = load(folder / "run/model.npz").provenance
    for rows, file in {f"held out ({folder / 'test.tsv'})": "test.tsv", "training": "train.csv"}.items():
        scores = json.loads(call("evaluate", folder / "run", folder / file, "--json").stdout)
        assert scores == pytest.approx(facts[rows])
    assert facts[f"held out ({folder / 'test.tsv'})"]["log loss"] == pytest.approx(facts["validation loss"])


def test_a_network_gives_the_hours_of_training(folder, tmp_path):
    """All on one link, then one client class on a slower one, which then sets the pace."""
    options = ["--client-column", "shop", "--k", 1, "--rounds", 20, "--quiet"]
    times = []
    for name, links in {"same": ["latency=1s"], "mixed": ["a: latency=10s", "latency=1s"]}.items():
        given = [word for link in links for word in ("--network", link)]
        done = call("train", folder / "train.csv", *options, *given, "--out", tmp_path / name)
        assert done.exit_code == 0, done.output
        facts = load(tmp_path / name / "model.npz").provenance
        times += [value for fact, value in facts.items() if fact.startswith("time on the network")]
        assert {"same": "seconds", "mixed": "minutes"}[name] + " on the network" in (
            tmp_path / name / "report.html"
        ).read_text()
    assert times == ["42 s", "7 min"]  # 21 trips down and up
    done = call("train", folder / "train.csv", *options, "--network", "a: latency=10s", "--out", tmp_path / "bad")
    assert done.exit_code == 2
    assert "client 'b' has no network" in plain(done)


BAD = {
    "no client column 'city'": lambda d: ["--client-column", "city", d / "train.csv"],
    "no target column 'price'": lambda d: ["--target", "price", d / "train.csv"],
    "the file is empty": lambda d: [empty(d / "empty")],
    "missing (in how many of 3 rows) in 'a' (1), 'b' (2); --missing impute fills numbers": lambda d: [
        text(d / "hole.csv", "a,b,target\n1,,x\n,,y\n1,2,y\n")
    ],
    "one class only": lambda d: [text(d / "one.csv", "a,target\n1,x\n2,x\n")],
    "column 'a' has infinity in row 1": lambda d: [text(d / "inf.csv", "a,target\ninf,x\n2.0,y\n")],
    "missing (in how many of 2 rows) in 'a' (1)": lambda d: [text(d / "nan.csv", "a,target\nnan,x\n2.0,y\n")],
    "it must be a number and one of B": lambda d: ["--budget", "1 mile", d / "train.csv"],
    "no such file": lambda d: [d / "nothing"],
}


def text(path, content):
    path.write_text(content)
    return path


def empty(path):
    return text(path, "")


@pytest.mark.parametrize("message", BAD)
def test_bad_input_is_a_clear_error_and_nothing_is_written(folder, tmp_path, message):
    done = call("train", *BAD[message](folder), "--out", tmp_path / "r")
    assert done.exit_code == 2
    assert message.replace(" ", "") in plain(done).replace(" ", "")
    assert not (tmp_path / "r").exists()


def test_a_damaged_or_foreign_model_file_is_a_clear_error(folder, tmp_path):
    whole = (folder / "run/model.npz").read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "foreign.npz", weights=np.ones(3))
    with np.load(folder / "run/model.npz") as file:
        parts = dict(file)
    parts["coef"] = parts["coef"] + 1e-9
    np.savez(tmp_path / "changed.npz", **parts)
    for name, message in {
        "cut": "damaged",
        "text": "damaged, or not a model",
        "foreign": "not a model of errorfeedback",
        "changed": "checksum",
    }.items():
        with pytest.raises(ValueError, match=message):
            load(tmp_path / f"{name}.npz")
    with pytest.raises(FileNotFoundError, match="no such file"):
        load(tmp_path / "none.npz")


def test_a_model_file_gives_back_the_model(tmp_path):
    X, y = np.eye(6), np.array([3, 5, 7] * 2)
    model = EF21Classifier(n_clients=2, max_iter=50, tol=0).fit(X, y)
    back = load(save(tmp_path / "m.npz", model, Indices(6, base=1), {"who": "test"})).model
    assert np.array_equal(back.predict_proba(X), model.predict_proba(X))
    assert back.predict(X).tolist() == model.predict(X).tolist()


def test_a_run_with_a_checkpoint_goes_on_with_the_same_command(folder):
    words = ["train", folder / "train.csv", "--client-column", "shop", "--quiet", "--rounds", 40]
    words += ["--checkpoint", folder / "state"]
    done = [call(*words, "--out", folder / name) for name in ("first", "again")]
    assert [each.exit_code for each in done] == [0, 0], done[1].output
    assert list((folder / "state").glob("round-*.ef"))
    first, again = (np.load(folder / name / "model.npz", allow_pickle=False)["coef"] for name in ("first", "again"))
    assert np.array_equal(first, again)
    refused = call(*words, "--out", folder / "held", "--valid", "0.2", "--l2", 0.5)
    assert refused.exit_code != 0
    assert "--l2 was 0.0001 and is 0.5; --valid was not given and is 0.2; use the same, or another folder" in plain(refused)
