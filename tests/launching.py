"""Programs under mpiexec, for the tests that need it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "engines/mpi_program.py"
BESIDE = Path(sys.executable).with_name("mpiexec")
MPIEXEC = str(BESIDE) if BESIDE.exists() else shutil.which("mpiexec")
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONWARNINGS": "error"}
TIMEOUT = 300

needs_mpi = pytest.mark.skipif(
    MPIEXEC is None or find_spec("mpi4py") is None, reason="no mpiexec or mpi4py: pip install 'errorfeedback[mpi]'"
)


def mpiexec(ranks, *words):
    command = [MPIEXEC, "-n", str(ranks), sys.executable, str(PROGRAM), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=TIMEOUT, check=False)


def told(done, ranks, words):
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith(words)]
    assert len(lines) == ranks, done.stdout + done.stderr
    return lines
