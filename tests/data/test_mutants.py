"""Damaged files: rows or a sentence, never a traceback, a hang or another value. `python tests/mutants.py` reads more."""

from __future__ import annotations

from dataclasses import replace

import mutants
from mutants import KINDS, command_outcome, later_outcome, many, outcome


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


def _shifted(data):
    return replace(data, A=data.A[:, [1, 2, 0]])
