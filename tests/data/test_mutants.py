"""Damaged files: rows or a sentence, never a traceback, a hang or another value. `python tests/mutants.py` reads more."""

from __future__ import annotations

from dataclasses import replace

import mutants
from mutants import KINDS, command, command_outcome, later_outcome, many, outcome, predictions_judged


def test_a_damaged_file_is_read_rightly_or_refused_with_a_sentence():
    counts, bad = many(350, 11, outcome)
    assert bad == []
    assert {kind for kind, said in counts if said == "refused"} == set(KINDS)
    assert sum(times for (_, said), times in counts.items() if said == "accepted") > 10  # else nothing was compared


def test_a_damaged_file_is_read_rightly_or_refused_in_the_encoding_of_another():
    counts, bad = many(140, 13, later_outcome)
    assert bad == []
    assert {said for _, said in counts} == {"accepted", "refused"}


def test_a_damaged_file_gives_a_model_or_a_sentence_on_the_command_line():
    counts, bad = many(28, 21, command_outcome)
    assert bad == []
    assert {said for _, said in counts} == {"accepted", "refused"}


def test_the_judge_notices_another_value(tmp_path, monkeypatch):
    """Negative control: a reader that takes every file for one-based."""
    real = mutants.read
    monkeypatch.setattr(mutants, "read", lambda path, reading, encoding: _shifted(real(path, reading)))
    assert outcome(".svm", b"1 1:1 2:5\n-1 0:1\n", tmp_path).startswith("wrong")


def test_the_judge_of_commands_notices_another_prediction(tmp_path):
    """Negative control: the predictions of other rows."""
    content, out = b"1 1:1 2:5\n-1 1:-2\n1 1:2\n-1 2:-1\n", tmp_path / "run"
    (tmp_path / "data.svm").write_bytes(content)
    assert command("train", tmp_path / "data.svm", "--out", out) == "accepted"
    assert command("predict", out, tmp_path / "data.svm", "--out", out / "said.csv") == "accepted"
    assert predictions_judged(".svm", content, out) == "accepted"
    head, first, second, *rest = (out / "said.csv").read_text().splitlines()
    (out / "said.csv").write_text("\n".join([head, second, first, *rest]))
    assert predictions_judged(".svm", content, out).startswith("wrong")


def _shifted(data):
    return replace(data, A=data.A[:, [1, 2, 0]])
