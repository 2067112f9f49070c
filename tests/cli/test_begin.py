"""What would fail at the end of a verb fails at its start, with a sentence and before any data is looked for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from launching import ENVIRONMENT, MPIEXEC, TIMEOUT, needs_mpi
from typer.testing import CliRunner

from errorfeedback.cli.app import app
from errorfeedback.cli.verbs import _begin

TINY = "1 1:1 2:1\n0 2:1\n1 1:1\n0 2:1 3:1\n"
WRITING = {
    "train": lambda place: ["train", "nowhere", "--out", place],
    "train with a checkpoint": lambda place: ["train", "nowhere", "--out", ".", "--checkpoint", place],
    "compare": lambda place: ["compare", "nowhere", "--out", place],
    "inspect with a page": lambda place: ["inspect", "nowhere", "--report", place],
    "inspect with figures": lambda place: ["inspect", "nowhere", "--draw", place],
    "predict": lambda place: ["predict", "nowhere", "nothing", "--out", place],
    "reproduce": lambda place: ["reproduce", "no-such-figure", "--out", place],
    "report": lambda place: ["report", place],
    "resume": lambda place: ["resume", place],
}
"""Commands that write, each with something else that is wrong too: the place is looked at first."""


def call(*words, **environment):
    done = CliRunner().invoke(app(), [str(word) for word in words], env={"COLUMNS": "300", **environment})
    return done.exit_code, " ".join(done.output.replace("│", " ").split())


@pytest.fixture
def data(tmp_path):
    (tmp_path / "tiny.svm").write_text(TINY)
    return tmp_path / "tiny.svm"


@pytest.fixture
def without(monkeypatch):
    """A package that is not installed."""

    def block(package):
        for name in [package, *(name for name in sys.modules if name.startswith(f"{package}."))]:
            monkeypatch.setitem(sys.modules, name, None)

    return block


@pytest.mark.parametrize("verb", WRITING)
def test_a_place_under_a_file_is_refused_before_work(verb, data):
    code, text = call(*WRITING[verb](data / "run"))
    assert code == 2
    assert f"{data / 'run'} cannot be written: {data} is a file, not a folder" in text


@pytest.mark.parametrize("verb", WRITING)
def test_a_full_disk_is_refused_before_work(verb, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(free=3_000_000))
    code, text = call(*WRITING[verb](tmp_path / "run"))
    assert code == 2
    assert "its disk has 3.0 MB free; make room for 20 MB first" in text


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder in which not even root can write")
@pytest.mark.parametrize("verb", WRITING)
def test_a_place_without_permission_is_refused_before_work(verb):
    code, text = call(*WRITING[verb]("/proc/run"))
    assert code == 2
    assert "/proc/run cannot be written: /proc:" in text


def test_a_file_cannot_take_the_place_of_a_folder(tmp_path):
    code, text = call("predict", "nowhere", "nothing", "--out", tmp_path)
    assert code == 2
    assert f"{tmp_path} is a folder; name a file" in text


def test_a_file_is_written_into_a_folder_that_is_not_there_yet(data):
    folder = data.parent
    code, text = call("train", data, "--clients", 2, "--rounds", 2, "--quiet", "--out", folder / "run")
    assert code == 0, text
    code, text = call("predict", folder / "run", data, "--out", folder / "new/predictions.csv")
    assert code == 0, text
    assert (folder / "new/predictions.csv").read_text().startswith("prediction,")


def test_nothing_is_left_by_the_check(tmp_path):
    _begin.begin(folders=[tmp_path / "a/b", None], files=[tmp_path / "c/d", None])
    assert not list(tmp_path.iterdir())


def test_without_plotly_train_and_compare_say_so_first_and_write_everything_but_the_page(data, without):
    without("plotly")
    for verb, written in {
        "train": {"model.npz", "history.json", "clients.json"},
        "compare": {"histories.json", "loss.png", "loss.svg"},
    }.items():
        out = data.parent / verb
        code, text = call(verb, data, "--clients", 2, "--rounds", 2, "--out", out)
        assert code == 0, text
        assert text.startswith("No page will be written, everything else will: pages need plotly")
        assert "pip install 'errorfeedback[report]'" in text
        names = {path.name for path in out.iterdir()}
        assert written <= names
        assert "report.html" not in names


def test_a_page_that_was_asked_for_needs_plotly(data, without):
    without("plotly")
    code, text = call("inspect", "nowhere", "--report", data.parent / "page.html")
    assert code == 2
    assert "page.html needs plotly: pip install 'errorfeedback[report]'" in text


def test_without_pyarrow_a_table_is_refused_in_a_sentence(tmp_path, without):
    without("pyarrow")
    (tmp_path / "t.csv").write_text("a,target\n1,x\n2,y\n")
    code, text = call("train", tmp_path / "t.csv", "--out", tmp_path / "run")
    assert code == 2
    assert "needs pyarrow" in text
    assert "pip install 'errorfeedback[tables]'" in text


def test_without_mpi4py_the_engine_is_refused_in_a_sentence(data, without):
    without("mpi4py")
    code, text = call("train", data, "--engine", "mpi", "--out", data.parent / "run")
    assert code == 2
    assert "ef.MPI needs mpi4py" in text
    assert "pip install 'errorfeedback[mpi]'" in text


@pytest.mark.parametrize(("size", "rank"), _begin.LAUNCHERS)
@pytest.mark.parametrize("verb", WRITING)
def test_mpiexec_without_a_shared_engine_stops(verb, size, rank, tmp_path):
    code, text = call(*WRITING[verb](tmp_path / "run"), **{size: "3", rank: "0"})
    assert code == 2
    assert "mpiexec started 3 processes, and each would do the whole job" in text
    assert ("add --" in text) == (verb.split()[0] in ("train", "resume"))
    assert call(*WRITING[verb](tmp_path / "run"), **{size: "3", rank: "2"}) == (0, "")


def test_mpiexec_with_one_process_or_a_shared_engine_goes_on(tmp_path):
    words = WRITING["train"](tmp_path / "run")
    for more, size in ([], "1"), (["--engine", "mpi"], "3"):
        code, text = call(*words, *more, PMI_SIZE=size, PMI_RANK="0")
        assert code != 0
        assert "no such file" in text
    assert call("reproduce", "--list", PMI_SIZE="1")[0] == 0


@needs_mpi
def test_a_real_mpiexec_says_it_once_and_writes_nothing(data):
    command = [
        MPIEXEC,
        "-n",
        "2",
        sys.executable,
        "-m",
        "errorfeedback",
        "train",
        str(data),
        "--out",
        str(data.parent / "run"),
    ]
    environment = {**ENVIRONMENT, "COLUMNS": "300"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=TIMEOUT, check=False)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("mpiexec started 2 processes") == 1
    assert os.listdir(data.parent) == [data.name]
