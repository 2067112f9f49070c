"""Data as small or as large as a float64 can be: every verb ends with a result or with a sentence."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from errorfeedback.cli.app import app

VERBS = {"train": ["--rounds", "5", "--quiet"], "inspect": ["--rounds", "5", "--k", "1"], "compare": ["--rounds", "5"]}
SENTENCES = ("step sizes need fourth powers of it", "for a float64: the target goes up to")


def write(path, scale, regression):
    rng = np.random.default_rng(0)
    A = scale * rng.normal(size=(40, 3))
    target = A[:, 0] if regression else (A[:, 0] > 0).astype(int)
    lines = [",".join(map(repr, [*row, t])) for row, t in zip(A.tolist(), target.tolist(), strict=True)]
    path.write_text("\n".join(["a,b,c,target", *lines]))
    return path


@pytest.mark.filterwarnings("ignore::errorfeedback.estimators.doubts.NotConvergedWarning")
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("scale", [1e-170, 1e-160, 1e154])
@pytest.mark.parametrize("words", [[], ["--no-scale"], ["--regression"]], ids=" ".join)
def test_tiny_and_huge_data_end_in_a_result_or_a_sentence(tmp_path, verb, scale, words):
    data = write(tmp_path / "t.csv", scale, "--regression" in words)
    out = [] if verb == "inspect" else ["--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app(), [verb, str(data), *VERBS[verb], *words, *out])
    assert done.exception is None or isinstance(done.exception, SystemExit)
    text = " ".join(done.output.replace("│", " ").split())
    assert done.exit_code == 0 or (done.exit_code == 2 and any(sentence in text for sentence in SENTENCES))
    fits = {"": True, "--no-scale": scale < 1, "--regression": False}  # the intercept is 1; targets are squared
    assert (done.exit_code == 0) == fits[" ".join(words)]
    assert " nan" not in text.lower()
