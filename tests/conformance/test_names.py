"""One name, one meaning: no two classes of the package and no two of its files are called the same, and words that could
mean anything name nothing.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import errorfeedback

ROOT = Path(errorfeedback.__file__).parent
FAMILIES = {"__init__.py", "base.py"}
"""Every folder is a package, and every family has what its members have in common in a file of this name."""
VERBS = ("cli", "verbs")
"""A command is one name: cli/verbs/train.py is how it is written, cli/train.py is what it does."""

VAGUE = {"told", "found", "look", "looked", "post", "posted", "together", "short", "agreed", "follow", "torn", "deaf"}
"""Each of them has had several meanings here."""


def twice(names):
    return sorted(name for name, count in Counter(names).items() if count > 1)


def classes(sources):
    return [node.name for text in sources for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]


def files(paths):
    return [path.name for path in paths if path.name not in FAMILIES and not _written(path, paths)]


def _written(path, paths):
    return path.parent.parts == VERBS and Path("cli", path.name) in paths


def vague(text):
    """Names of variables, attributes, arguments and functions that are one of these words."""
    fields = {ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.FunctionDef: "name", ast.ClassDef: "name"}
    names = [getattr(node, fields[type(node)]) for node in ast.walk(ast.parse(text)) if type(node) in fields]
    return [name for name in names if name.strip("_").lower() in VAGUE]


def test_no_name_is_a_word_with_several_meanings():
    assert {path.name: names for path in ROOT.rglob("*.py") if (names := vague(path.read_text(encoding="utf-8")))} == {}


def test_no_two_classes_share_a_name():
    assert twice(classes(path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py"))) == []


def test_no_two_files_share_a_name():
    assert twice(files({path.relative_to(ROOT) for path in ROOT.rglob("*.py")})) == []


def test_the_checks_notice_what_is_called_the_same():
    """Negative control."""
    assert twice(classes(["class Point: ...", "def f():\n    class Point: ..."])) == ["Point"]
    verb = {Path("cli/train.py"), Path("cli/verbs/train.py"), Path("data/base.py"), Path("methods/base.py")}
    assert twice(files(verb)) == []
    assert twice(files(verb | {Path("estimators/train.py")})) == ["train.py"]
    assert vague("def _told(look): return look.agreed") == ["_told", "look", "agreed", "look"]
