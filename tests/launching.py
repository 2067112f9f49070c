"""Programs under mpiexec, for the tests that need it."""

from __future__ import annotations

import os
import shutil
import signal
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


def started(command, **options):
    """A process that hears SIGINT, also where these tests run in the background of a shell, which makes children deaf."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": ENVIRONMENT}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a child inherits deafness, and no handler
    try:
        return subprocess.Popen(list(map(str, command)), **pipes | options)
    finally:
        signal.signal(signal.SIGINT, before)


class Job:
    """A job under mpiexec that runs until a signal comes, and the processes of its ranks."""

    def __init__(self, ranks, *words):
        self.process = started([MPIEXEC, "-n", ranks, sys.executable, PROGRAM, *words])
        self.ranks = {}
        while len(self.ranks) < ranks or self.line.split() != ["round", "100"]:
            self.line = self.process.stdout.readline()
            assert self.line, self.process.communicate()
            if self.line.startswith("pid"):
                rank, pid = map(int, self.line.split()[1:])
                self.ranks[rank] = pid

    def end(self):
        """(exit code, what was said); no process is left."""
        try:
            _, errors = self.process.communicate(timeout=TIMEOUT)
            return self.process.returncode, errors
        finally:
            alive = [pid for pid in self.ranks.values() if self._ends(pid)]
            assert not alive, f"{alive} outlive their job"

    @staticmethod
    def _ends(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True


def told(done, ranks, words):
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith(words)]
    assert len(lines) == ranks, done.stdout + done.stderr
    return lines
