"""docs/methods.md names what is there: every method, its file with its length, and its tests."""

from __future__ import annotations

import re

import method_table
import pytest

from errorfeedback import methods
from errorfeedback.methods.base import Method
from errorfeedback.registry import members

TEXT = method_table.PAGE.read_text(encoding="utf-8")
BASES = {"DCGD"}
"""What methods are measured against, and nobody's published method."""


def test_ticks_and_lines_are_those_of_the_files():
    assert method_table.renewed(TEXT) == TEXT, "run python docs/_ext/method_table.py"


def test_everything_that_the_table_names_is_there():
    assert {row[2]: absent for row in method_table.rows(TEXT) if (absent := method_table.missing(row))} == {}


def test_every_method_has_a_row():
    named = {name for row in method_table.rows(TEXT) for name in re.findall(r"\w+", row[method_table.LIBRARY])}
    assert set(members(methods, Method)) - BASES <= named


@pytest.mark.parametrize(
    ("old", "new", "absent"),
    [
        ("`EF21Plus(C)`", "`EF21Minus(C)`", "EF21Minus"),
        ("methods/ef21_plus.py", "methods/ef21_minus.py", "src/errorfeedback/methods/ef21_minus.py"),
        ("theory/test_three_points", "theory/test_four_points", "theory/test_four_points.py"),
        ("`ThreePointStep`", "`FourPointStep`", "FourPointStep"),
        ("test_reference", "none", "a reference test"),
    ],
)
def test_a_row_that_names_what_is_not_there_has_no_tick(old, new, absent):
    """Negative control."""
    line = next(line for line in TEXT.splitlines() if "| EF21+ |" in line)
    assert line.startswith("| ✓ |")
    other = method_table.renewed(TEXT.replace(line, line.replace(old, new)))
    row = next(row for row in method_table.rows(other) if row[2] == "EF21+")
    assert row[method_table.TICK] == ""
    assert method_table.missing(row) == [absent]
