"""What the packages promise, where that is cheap to check; `make dist` (tests/package_builds.py) installs and uses them."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

import errorfeedback
from errorfeedback.extras import EXTRAS

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TESTED = ("report", "tables", "pandas")
"""Extras that the oldest versions are tested with."""


def bounds(requirements):
    """Name and lower bound."""
    return dict(each.split(">=") for each in requirements)


def test_the_oldest_versions_that_are_tested_are_the_lower_bounds():
    project = PROJECT["project"]
    wanted = bounds(project["dependencies"])
    for extra in TESTED:
        wanted |= bounds(project["optional-dependencies"][extra])
    lines = (ROOT / "tests/oldest.txt").read_text(encoding="utf-8").splitlines()
    tested = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert tested.keys() - wanted.keys() == {"click", "pyparsing"}
    for name, bound in wanted.items():
        assert tested[name].split(".") == [*bound.split("."), "0", "0"][:3], name


@pytest.mark.parametrize(("package", "extra"), EXTRAS.items())
def test_the_extra_that_a_sentence_names_brings_the_package(package, extra):
    brought = [each.lower() for each in PROJECT["project"]["optional-dependencies"][extra]]
    assert any(each.startswith(package.lower()) for each in brought)


def test_every_file_beside_the_programs_is_in_the_package():
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["errorfeedback"]
    there = {
        p for p in (ROOT / "src/errorfeedback").rglob("*") if p.is_file() and p.suffix not in (".py", ".pyc", ".nbi", ".nbc")
    }
    packed = {path for pattern in patterns for path in (ROOT / "src/errorfeedback").glob(pattern)}
    assert there == packed
    assert files("errorfeedback.watchers").joinpath("live.html").is_file()


def test_sources_that_nobody_installed_have_a_version_too(tmp_path):
    (tmp_path / "errorfeedback").symlink_to(Path(errorfeedback.__file__).parent)
    program = (
        "import sys; sys.path = [sys.argv[1], *(p for p in sys.path if 'site-packages' not in p and not p.endswith('src'))]"
    )
    program += "; import errorfeedback; print(errorfeedback.__version__)"
    command = [sys.executable, "-S", "-E", "-c", program, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "0+unknown\n"
    assert errorfeedback.__version__ not in ("", "0+unknown")
