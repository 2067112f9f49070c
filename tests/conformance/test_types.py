"""A type checker finds a vector of R^d where one of the lifted space belongs, and the other way round."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAD = """
from errorfeedback.core import Lifted, Model, PerClient, Point
from errorfeedback.sparsity.support import Support

def f(support: Support, x: Model, u: Lifted, w: PerClient) -> None:
"""
RIGHT = ["support.scatter(support.gather(x))", "support.norms2(u)", "support.repeat(w)", "Point(shared=x, own=u)"]
WRONG = {
    "support.scatter(x)": '"scatter" of "Support" has incompatible type "Model"; expected "Lifted"',
    "support.gather(u)": '"gather" of "Support" has incompatible type "Lifted"; expected "Model"',
    "support.max_over_features(u)": '"max_over_features" of "Support" has incompatible type "Lifted"; expected "PerClient"',
    "Point(u)": '"Point" has incompatible type "Lifted"; expected "Model | None"',
}


def checked(lines, folder):
    """What mypy says about each line that it refuses."""
    file = folder / "program.py"
    file.write_text(HEAD + "\n".join(f"    {line}" for line in lines))
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-codes", str(file)]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    return [line.split("error: Argument 1 to ")[1] for line in said]


def test_mypy_tells_the_spaces_apart(tmp_path):
    pytest.importorskip("mypy", reason="a type checker: pip install mypy")
    assert checked(RIGHT, tmp_path) == []
    assert checked(WRONG, tmp_path) == list(WRONG.values())
