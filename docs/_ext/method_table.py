"""The table of docs/methods.md: its ticks and the lengths of its files, from the repository.

`python docs/_ext/method_table.py` writes both anew. A row has its tick when everything that it names is there: its classes
and step sizes in `errorfeedback`, its files, the test that compares it with its pseudo-code and the test of its theorem.
"""

import re
from functools import cache
from pathlib import Path

import errorfeedback

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "methods.md"
HEAD = (
    "",
    "family",
    "method",
    "in the library",
    "file",
    "lines",
    "reference test",
    "step size from a theorem",
    "theorem test",
)
TICK, LINES = HEAD.index(""), HEAD.index("lines")
LIBRARY, FILE, REFERENCE, STEP, THEOREM = (
    HEAD.index(name) for name in ("in the library", "file", "reference test", "step size from a theorem", "theorem test")
)


def renewed(text):
    """The page with ticks and lines as they are now."""
    lines = text.splitlines()
    begin = lines.index(_line(HEAD)) + 2
    end = next((k for k in range(begin, len(lines)) if not lines[k].startswith("|")), len(lines))
    table = [_line(_renewed(_cells(line))) for line in lines[begin:end]]
    return "\n".join([*lines[:begin], *table, *lines[end:]]) + "\n"


def rows(text):
    """The table, a list of cells for every method."""
    table = text[text.index(_line(HEAD)) :].splitlines()[2:]
    return [_cells(line) for line in table[: next((k for k, line in enumerate(table) if not line.startswith("|")), None)]]


def missing(row):
    """What a row names and is not there."""
    names = re.findall(r"\b[A-Z]\w+(?=\()", row[LIBRARY]) + re.findall(r"`(\w+)", row[STEP])
    tests = re.findall(r"(?:\w+/)?test_\w+", f"{row[REFERENCE]} {row[THEOREM]}")
    absent = [name for name in names if name not in _names()]
    absent += [f"{test}.py" for test in tests if not any(name.endswith(f"/{test}.py") for name in _tests())]
    absent += [str(path.relative_to(ROOT)) for path in _files(row) if not path.is_file()]
    return absent + ["a file"] * (not _files(row)) + ["a reference test"] * ("test_" not in row[REFERENCE])


def _renewed(row):
    lengths = [len(path.read_text(encoding="utf-8").splitlines()) for path in _files(row) if path.is_file()]
    row[TICK], row[LINES] = "" if missing(row) else "✓", " + ".join(map(str, lengths))
    return row


@cache
def _names():
    return set(dir(errorfeedback))


@cache
def _tests():
    return [path.as_posix() for path in (ROOT / "tests").rglob("test_*.py")]


def _files(row):
    return [ROOT / "src" / "errorfeedback" / name for name in re.findall(r"\w+/\w+\.py", row[FILE])]


def _cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def _line(cells):
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
