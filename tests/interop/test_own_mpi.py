"""Functions and modules of your own under real mpiexec: every rank makes the problem, and is asked for its own clients."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from launching import ENVIRONMENT, MPIEXEC, TIMEOUT, needs_mpi, told

pytestmark = needs_mpi
PROGRAM = Path(__file__).with_name("own_mpi_program.py")
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="no PyTorch: pip install 'errorfeedback[torch]'")


def mpiexec(ranks, job):
    command = [MPIEXEC, "-n", str(ranks), sys.executable, str(PROGRAM), job]
    environment = {**ENVIRONMENT, "PYTHONWARNINGS": "default"}  # what importing torch warns of is not ours
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=TIMEOUT, check=False)


@pytest.mark.parametrize(("ranks", "job"), [(3, "functions"), pytest.param(2, "module", marks=needs_torch)])
def test_the_bits_are_those_of_one_process(ranks, job):
    told(mpiexec(ranks, job), ranks, "same bits")


def test_a_rank_is_asked_for_its_own_clients_alone():
    lines = told(mpiexec(2, "alone"), 2, "asked")
    assert sorted(lines) == ["asked [0, 1, 2]", "asked [3, 4, 5, 6]"]


@needs_torch
def test_ranks_with_other_data_refuse():
    lines = told(mpiexec(2, "other"), 2, "refused")
    assert "problem.digest is" in lines[0]
