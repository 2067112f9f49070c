"""One run at a time in a folder, and a dead process keeps nothing."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

import errorfeedback as ef
from errorfeedback.cli.app import app
from errorfeedback.storage import lock
from errorfeedback.storage.checkpoint import Folder

HOLD = """
import sys
from pathlib import Path
from errorfeedback.storage.checkpoint import Folder

with Folder(Path(sys.argv[1])).held():
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(folder):
    """Another process that holds the folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"held\n"
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def problem():
    return ef.synthetic(n=4, d=8, m=2, c=2)


def solve(problem, folder, **options):
    return ef.solve(
        problem, ef.EF21(ef.TopK(1)), ef.Constant(0.01), rounds=9, checkpoint=ef.Checkpoint(folder, every=3), **options
    )


def test_solve_and_resume_are_refused_while_another_process_has_the_folder(problem, tmp_path):
    whole = solve(problem, tmp_path)
    half_written = tmp_path / "round-000000000099.ef.77.tmp"
    with holder(tmp_path) as process:
        half_written.write_bytes(b"the other process is still writing this")
        words = f"{tmp_path} is in use by process {process.pid} on .*; wait for its end, or choose another folder"
        with pytest.raises(ValueError, match=words):
            ef.resume(tmp_path)
        for path in Folder(tmp_path).rounds():
            path.unlink()
        with pytest.raises(ValueError, match=words):
            solve(problem, tmp_path)
        assert half_written.exists()
    assert (solve(problem, tmp_path).x == whole.x).all()
    assert not half_written.exists()


def test_a_process_that_is_killed_keeps_nothing(problem, tmp_path):
    with holder(tmp_path) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert (tmp_path / "lock").exists()
        solve(problem, tmp_path)


def test_a_run_in_this_process_is_refused_too_and_lets_go_at_its_end(problem, tmp_path):
    def again(row):
        with pytest.raises(ValueError, match=f"in use by process {os.getpid()} on"):
            solve(problem, tmp_path)

    solve(problem, tmp_path, watch=again)
    ef.resume(tmp_path)


def test_train_is_refused_before_it_reads_anything(tmp_path):
    command = ["train", str(tmp_path / "no such file"), "--out", str(tmp_path / "out"), "--checkpoint"]
    (tmp_path / "file").write_text("")
    with holder(tmp_path / "run"):
        for folder, words in (("run", "is in use by process"), ("file", "is a file, not a folder")):
            done = CliRunner().invoke(app(), [*command, str(tmp_path / folder)])
            assert done.exit_code == 2
            assert words in " ".join(done.output.replace("│", " ").split())


@pytest.mark.parametrize("missing", [True, False])
def test_where_there_are_no_locks_a_word_is_said_and_work_goes_on(missing, problem, tmp_path, monkeypatch, caplog):
    def unsupported(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(lock, "flock", None if missing else unsupported)
    solve(problem, tmp_path)
    assert f"{tmp_path} cannot be locked" in caplog.text
