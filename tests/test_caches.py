"""A read-only install and no home: kernels are compiled into a temporary folder, with a word."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import errorfeedback
from errorfeedback import caches

SOLVE = """if True:
    import errorfeedback as ef
    problem = ef.synthetic(n=4, d=6, m=2, c=2)
    result = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=3)
    print("rounds:", result.rounds)
"""
NOBODY = "65534"
READS = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
"""Python may be installed where others cannot read: this user reads everything and writes nothing but its own."""


@pytest.fixture(scope="module")
def as_nobody(tmp_path_factory):
    """Runs Python as a user who owns nothing and has no home, on a copy of the package that is not theirs."""
    if os.name == "nt" or os.getuid() != 0:
        pytest.skip("only root can run a program as another user")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv (util-linux) is not installed")
    try:
        subprocess.run(["setpriv", "--reuid", NOBODY, *READS, "true"], check=True, capture_output=True)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this root may not become another user: {error.stderr.decode().strip()}")
    place = tmp_path_factory.mktemp("install")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(errorfeedback.__file__).parent, place / "errorfeedback", ignore=ignored)

    def run(*words, **environment):
        others = {"PATH": os.environ["PATH"], "PYTHONPATH": str(place), "COLUMNS": "200", **environment}
        user = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", *READS]
        command = [*user, sys.executable, *words]
        return subprocess.run(command, env=others, cwd="/", capture_output=True, text=True, timeout=300, check=False)

    return run


def test_solve_works_and_says_that_kernels_are_not_kept(as_nobody):
    done = as_nobody("-c", SOLVE)
    assert done.returncode == 0, done.stderr
    assert "rounds: 3" in done.stdout
    assert "kernels are compiled anew in every run; set NUMBA_CACHE_DIR" in done.stderr
    assert as_nobody("-c", "import numba\n" + SOLVE.replace("if True:", "if 1:")).returncode == 0


def test_help_works(as_nobody):
    done = as_nobody("-m", "errorfeedback", "--help")
    assert done.returncode == 0, done.stderr
    assert "train" in done.stdout


def test_the_temporary_folder_is_private_and_removed(as_nobody):
    program = """if True:
        import os, errorfeedback
        folder = os.environ["NUMBA_CACHE_DIR"]
        print(folder, oct(os.stat(folder).st_mode & 0o777))
    """
    folder, mode = as_nobody("-c", program).stdout.split()
    assert mode == "0o700"
    assert not Path(folder).exists()


def test_a_folder_that_the_user_names_is_used(as_nobody):
    done = as_nobody("-c", "import errorfeedback, os; print(os.environ['NUMBA_CACHE_DIR'])", NUMBA_CACHE_DIR="/tmp/mine")
    assert (done.stdout, done.stderr) == ("/tmp/mine\n", "")


def test_a_known_data_set_is_asked_for_in_a_sentence(as_nobody):
    done = as_nobody("-m", "errorfeedback", "inspect", "a9a")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "ERRORFEEDBACK_DATA" in done.stderr


def test_a_place_can_be_written_where_its_nearest_folder_can(tmp_path):
    (tmp_path / "file").touch()
    assert caches._writable(tmp_path / "a/b")
    assert not caches._writable(tmp_path / "file/b")
    assert not caches._writable(Path("~/.cache"))


def test_nothing_changes_where_numba_finds_a_place(monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    caches.ensure_kernels()
    assert "NUMBA_CACHE_DIR" not in os.environ
