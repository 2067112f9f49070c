"""Processes that were not given the same are told what differs; the hash sees every bit that can be compared."""

from __future__ import annotations

import numpy as np
import pytest

from errorfeedback.problems.conversation import Seat, Side, alone
from errorfeedback.runtime.agreement import agree
from errorfeedback.runtime.validation import Validation


def outcomes(*given):
    """What every process is told."""
    sides = [Side(agree(lambda k=k: given[k], Seat(k, len(given)))) for k in range(len(given))]
    for side in sides:
        side.hear(None)
    said = [side.says for side in sides]

    def outcome(side):
        try:
            side.hear(said)
        except ValueError as error:
            return str(error)
        assert side.ended
        return ""

    return [outcome(side) for side in sides]


def test_one_process_agrees_with_itself_and_makes_no_hash():
    alone(lambda seat: agree(lambda: pytest.fail("nobody to compare with"), seat))


def test_what_differs_is_named_on_every_process():
    words = "the ranks must be given the same, but b is 2 on rank 0 and 3 on rank 2; c is missing on rank 0 and 1 on rank 1"
    assert outcomes({"a": 1, "b": 2}, {"a": 1, "b": 2, "c": 1}, {"a": 1, "b": 3, "c": 1}) == [words] * 3


def test_a_long_array_is_compared_to_its_last_bit():
    """Its text is not: the middle is left out of it."""
    long = np.zeros(5000)
    other = long.copy()
    other[2500] = 5e-324
    assert outcomes({"x": long}, {"x": long.copy()}) == ["", ""]
    first, second = outcomes({"x": (long,)}, {"x": (other,)})
    assert first == second
    assert "x is " in first


def test_functions_are_not_compared_but_what_is_beside_them_is():
    rules = [Validation(lambda x: 1.0), Validation(lambda x: 2.0), Validation(lambda x: 1.0, patience=7)]
    assert outcomes({"stop": (rules[0],)}, {"stop": (rules[1],)}) == ["", ""]
    assert all("stop is" in words for words in outcomes({"stop": (rules[0],)}, {"stop": (rules[2],)}))
