"""Ready watchers: each is told every recorded round. They are extras: a test skips where its package is not there."""

from __future__ import annotations

import ast
import io
import logging
from pathlib import Path

import pytest

import errorfeedback as ef
from errorfeedback.extras import MissingExtraError, installed

ROOT = Path(ef.__file__).parent
SPOKEN = {"engines/channel.py", "federated/flower/control.py"}
"""Before an MPI job is ended: whoever reads the job's output must see why, however logging is set up; and the
answer of a federation's control program, whose output is read."""


def solved(watch):
    problem = ef.synthetic(n=10, d=20, m=3, c=2)
    return ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=30, every=10, watch=watch)


def test_a_bar_of_tqdm_is_at_the_last_round(monkeypatch):
    pytest.importorskip("tqdm")
    said = io.StringIO()
    monkeypatch.setattr("sys.stderr", said)
    with ef.TqdmBar(rounds=30) as bar:
        result = solved(bar)
        assert bar.bar.n == 30
    assert f"loss {result.history['f'][-1]:.6g}" in said.getvalue()


@pytest.mark.filterwarnings("default")
def test_tensorboard_has_every_column_and_round(tmp_path):
    pytest.importorskip("tensorboardX")
    with ef.TensorBoard(tmp_path) as board:
        result = solved(board)
    (file,) = tmp_path.iterdir()
    content = file.read_bytes()
    for name in ("f", "grad_norm2", "gamma", "uplink_bits"):
        assert content.count(b"\n" + bytes([len(name)]) + name.encode()) == result.history.rows
    assert b"\nround" not in content


@pytest.mark.filterwarnings("default")
def test_mlflow_has_every_column_and_round(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with ef.MLflow() as watch:
        result = solved(watch)
        run = watch.own.info.run_id
    assert mlflow.active_run() is None
    said = mlflow.MlflowClient().get_metric_history(run, "f")
    assert [(each.step, each.value) for each in said] == list(zip([0, 10, 20, 30], result.history["f"], strict=True))


@pytest.mark.parametrize(("package", "make"), [("tqdm", lambda: ef.TqdmBar(1)), ("mlflow", ef.MLflow)])
def test_without_its_package_a_watcher_says_how_to_get_it(package, make):
    if installed(package):
        pytest.skip("it is there")
    with pytest.raises(MissingExtraError, match=rf"pip install 'errorfeedback\[{package}\]'"):
        make()


def test_a_run_says_by_logging_what_it_is_and_why_it_ended(caplog, capsys):
    with caplog.at_level(logging.INFO, "errorfeedback"):
        solved(None)
    said = [record.getMessage() for record in caplog.records]
    assert any("EF21(TopK(k=1)" in line and "at most 30 rounds" in line for line in said)
    assert "ran all 30 rounds at round 30" in said
    assert capsys.readouterr() == ("", "")


def printing(text):
    return [
        node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print"
    ]


def test_the_library_prints_nothing_by_itself():
    assert printing("print(1)"), "the check sees a print"
    said = {path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py") if printing(path.read_text(encoding="utf-8"))}
    assert {path for path in said if not path.startswith("cli/")} == SPOKEN
