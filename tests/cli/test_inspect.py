"""The verb `inspect`, from the outside."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file
from typer.testing import CliRunner

from errorfeedback.cli.app import app


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(0)
    A = (rng.random((120, 12)) < 0.3).astype(float)
    path = tmp_path_factory.mktemp("data") / "small.svm"
    dump_svmlight_file(A, np.arange(120) % 2, str(path), zero_based=False)
    return path


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app(), ["inspect", *words], env={"COLUMNS": "200"})
    return result.exit_code, result.stdout if "--json" in words else result.output


def test_text(data: Path) -> None:
    code, text = run(str(data), "--clients", "10", "--network", "up=1Mbit/s,latency=50ms")
    assert code == 0
    for word in ("n = 10 clients", "clients per feature", "L_tilde", "DGD", "the least time on the network"):
        assert word in text
    assert "down 1 Mbit/s (not given: same as up), latency 50 ms" in " ".join(text.split())
    advice = text.index("Run `errorfeedback train` ")
    assert advice < text.index("hold for the worst case") < text.index("By the theorems")


def test_json_report_and_figures(data: Path, tmp_path: Path) -> None:
    page, folder = tmp_path / "page.html", tmp_path / "figures"
    code, text = run(
        str(data), "--clients", "10", "--json", "--report", str(page), "--draw", str(folder), "--k", "1", "--k", "3"
    )
    assert code == 0
    found = json.loads(text)
    assert found["census"]["n"] == 10
    assert {p["k"] for p in found["plans"] if not p["exact_features"]} == {None, 1, 3}
    assert "Before you run: small.svm" in page.read_text()
    figures = ("rarity", "promises", "costs")
    assert {p.name for p in folder.iterdir()} == {f"{name}.{kind}" for name in figures for kind in ("png", "svg")}


def test_options_change_the_problem(data: Path) -> None:
    _, with_ones = run(str(data), "--clients", "10", "--json")
    _, without = run(str(data), "--clients", "10", "--json", "--intercept", "none", "--regression", "--seed", "3")
    assert json.loads(with_ones)["census"]["d"] == json.loads(without)["census"]["d"] + 1
    assert "squared loss" in json.loads(without)["census"]["title"]
    assert json.loads(with_ones)["census"]["commonest"][0]["name"] == "intercept"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--network", "up=fast"], "up = 'fast'"),
        (["--intercept", "often"], "intercept = 'often'"),
        (["--epsilon", "2"], "epsilon = 2.0"),
        (["--clients", "1000"], "1000 clients but 120 rows"),
    ],
)
def test_wrong_words_are_named(data: Path, words: list[str], message: str) -> None:
    code, text = run(str(data), "--clients", "10", *words)
    assert code == 2
    assert message in " ".join(text.replace("│", " ").split())


def test_a_missing_file_is_named() -> None:
    code, text = run("nowhere.svm")
    assert code == 2
    assert "nowhere.svm" in text
