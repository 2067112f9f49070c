"""`errorfeedback resume` where there is nothing to go on with, or nowhere to write."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from errorfeedback.cli.app import app


def call(*words):
    done = CliRunner().invoke(app(), [str(word) for word in words], env={"COLUMNS": "400"})
    return done.exit_code, done.output


@pytest.mark.parametrize("trained", [True, False])
def test_a_folder_without_a_checkpoint_says_how_to_make_one(trained, tmp_path):
    """Also the folder of a plain `train`, which has a model but nothing to resume."""
    (tmp_path / "tiny.svm").write_text("1 1:1 2:1\n0 2:1\n1 1:1\n0 2:1 3:1\n")
    if trained:
        code, text = call(
            "train", tmp_path / "tiny.svm", "--clients", 2, "--rounds", 3, "--quiet", "--out", tmp_path / "run"
        )
        assert code == 0, text
    code, text = call("resume", tmp_path / "run")
    assert code == 2
    assert f"{tmp_path / 'run'} holds no run to go on with" in text
    assert "errorfeedback train --checkpoint FOLDER" in text


def test_the_folder_of_the_results_is_looked_at_before_work(tmp_path):
    """It is named by the command that began the run."""
    (tmp_path / "tiny.svm").write_text("1 1:1 2:1\n0 2:1\n1 1:1\n0 2:1 3:1\n")
    place = ["--checkpoint", tmp_path / "state", "--out", tmp_path / "run/here"]
    code, text = call("train", tmp_path / "tiny.svm", "--clients", 2, "--rounds", 3, "--quiet", *place)
    assert code == 0, text
    (tmp_path / "tiny.svm").unlink()
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    (tmp_path / "run").touch()
    code, text = call("resume", tmp_path / "state")
    assert code == 2
    assert f"{tmp_path / 'run/here'} cannot be written: {tmp_path / 'run'} is a file" in text
