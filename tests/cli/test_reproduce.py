"""`errorfeedback reproduce` and `errorfeedback report` as a user meets them."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import pytest
from launching import started
from typer.testing import CliRunner

from errorfeedback.cli.app import app
from errorfeedback.experiments.jobs import Job

RUNNER = CliRunner()


def run(*words: str):
    return RUNNER.invoke(app(), list(words))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """table-1 with a tiny horizon: constants of four problems and four short curves."""
    out = tmp_path_factory.mktemp("reproduction")
    result = run("reproduce", "table-1", "--rounds", "5", "--out", str(out), "--json", "--jobs", "1")
    assert result.exit_code == 0, result.output
    return out, json.loads(result.stdout)


def test_list_names_every_experiment_and_its_data():
    result = run("reproduce", "--list")
    assert result.exit_code == 0
    for word in ("table-1", "figure-7", "phishing, mushrooms, w5a"):
        assert word in result.stdout
    assert len(json.loads(run("reproduce", "--list", "--json").stdout)) == 11


def test_json_says_what_was_made_and_what_was_found(folder):
    out, summary = folder
    (table,) = summary["experiments"]
    assert summary["complete"] is True
    assert table["options"]["rounds"] == 5
    assert table["seed"] == 0
    assert {"errorfeedback", "numpy", "numba"} <= set(table["versions"])
    assert {claim["holds"] for claim in table["claims"]} <= {True, False, None}
    assert all((out / path).is_file() for path in table["curves"].values())
    assert table["problems"]["synthetic-c5"]["c"] == 5
    for name in ("report.html", "table-1.png", "table-1.svg", "table-1.json"):
        assert (out / name).is_file()


def test_a_rerun_and_a_report_run_nothing(folder, monkeypatch):
    out, _ = folder

    def refuse(self, watch):
        raise AssertionError("nothing should run")

    for kind in Job.__subclasses__():
        monkeypatch.setattr(kind, "execute", refuse)
    (out / "report.html").unlink()
    (out / "table-1.png").unlink()
    result = run("report", str(out))
    assert result.exit_code == 0, result.output
    assert "does not hold" in result.stdout
    assert (out / "report.html").is_file()
    assert (out / "table-1.png").is_file()
    assert run("reproduce", "table-1", "--rounds", "5", "--out", str(out)).exit_code == 0


def test_an_unknown_name_and_an_empty_folder_are_usage_errors(tmp_path):
    assert run("reproduce", "figure-9").exit_code == 2
    assert run("report", str(tmp_path)).exit_code == 2
    assert run("reproduce", "--rounds", "0").exit_code == 2


def test_missing_data_is_named_and_the_exit_code_tells(tmp_path, monkeypatch):
    monkeypatch.setenv("ERRORFEEDBACK_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("errorfeedback.data.known.SITE", (tmp_path / "nowhere").as_uri() + "/")
    result = run("reproduce", "figure-5", "--out", str(tmp_path / "out"))
    assert result.exit_code == 1
    assert "put the file named a9a" in result.output.replace("\n", " ")
    assert "not checked" in result.output
    assert (tmp_path / "out" / "report.html").is_file()


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_ctrl_c_keeps_what_is_finished(tmp_path):
    """A terminal's Ctrl-C goes to the whole group of processes."""
    words = ["reproduce", "figure-2", "table-1", "--out", str(tmp_path), "--jobs", "1", "--rounds", "20000"]
    command = [sys.executable, "-m", "errorfeedback", *words]
    process = started(command, start_new_session=True)
    try:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob("curves/*.csv")) and time.monotonic() < deadline:
            time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, output
    assert "the same command continues there" in output
    assert list(tmp_path.glob("curves/*.csv"))
    assert not list(tmp_path.glob("curves/*.part"))


DAMAGE = {
    "cut": lambda whole: whole[: len(whole) // 2],
    "empty": lambda whole: b"",
    "not text": lambda whole: b"\xff\xfe" + whole,
    "a number in place of it": lambda whole: b"7",
    "a list in place of it": lambda whole: b"[]",
    "an object without entries": lambda whole: b"{}",
    "nested too deep": lambda whole: b"[" * 100_000,
    "another digit": lambda whole: whole.translate(bytes.maketrans(b"3", b"4")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_folder_is_a_sentence_that_names_the_file(folder, damage):
    """Another digit in a curve would be another curve: the checksum tells."""
    original, _ = folder
    stored = sorted(original.glob("curves/*"))
    summary = [original / "table-1.json"] if damage != "another digit" else []  # its numbers are computed again
    for path in [*summary, stored[0], next(p for p in stored if p.suffix != stored[0].suffix)]:
        whole = path.read_bytes()
        path.write_bytes(DAMAGE[damage](whole))
        try:
            result = RUNNER.invoke(app(), ["report", str(original)], env={"COLUMNS": "400"})
        finally:
            path.write_bytes(whole)
        assert result.exit_code == 2, (path, result.output)
        assert path.stem in result.output
        assert "is damaged" in result.output


def test_a_part_whose_facts_are_gone_is_a_sentence(folder):
    out, _ = folder
    path = next(out.glob("curves/*.json"))
    whole = path.read_bytes()
    path.unlink()
    try:
        result = RUNNER.invoke(app(), ["report", str(out)], env={"COLUMNS": "400"})
    finally:
        path.write_bytes(whole)
    assert result.exit_code == 2
    assert "is damaged" in result.output
