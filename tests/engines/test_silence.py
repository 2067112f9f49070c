"""A rank that is stopped, leaves or gets a signal ends the job, which says why; one that only works for long does not."""

from __future__ import annotations

import os
import signal
import time

import pytest
from launching import Job, mpiexec, needs_mpi, told

import errorfeedback as ef

pytestmark = needs_mpi
TIMEOUT = 5


@pytest.mark.parametrize(("rank", "clients"), [(0, "0 to 2"), (1, "3 to 6")])
def test_a_stopped_rank_ends_the_job_with_its_name_and_its_clients(rank, clients):
    job = Job(2, "endless", "none", TIMEOUT)
    os.kill(job.ranks[rank], signal.SIGSTOP)
    code, errors = job.end()
    assert code != 0
    assert f"rank {rank} (clients {clients}) has not been heard of for 5 seconds: it is stopped" in errors
    assert "died" not in errors


def test_a_job_that_is_suspended_as_a_whole_goes_on(tmp_path):
    job = Job(2, "endless", tmp_path, TIMEOUT)
    for number, seconds in ((signal.SIGSTOP, 2 * TIMEOUT), (signal.SIGCONT, 3)):
        for pid in job.ranks.values():
            os.kill(pid, number)
        time.sleep(seconds)
    os.kill(job.ranks[0], signal.SIGTERM)
    code, errors = job.end()
    assert "heard of" not in errors
    assert code == 143, errors


def test_work_that_takes_longer_than_the_timeout_is_waited_for():
    told(mpiexec(2, "slow"), 2, "all is well")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_ends_before_the_others_is_named(rank):
    done = mpiexec(2, "leave", rank)
    assert done.returncode != 0
    assert "FileNotFoundError: my rows are not here" in done.stderr
    assert f"errorfeedback: rank {rank} left the program while another rank waits for it; the job ends" in done.stderr


@pytest.mark.parametrize(("to", "signalled", "code"), [("the job", signal.SIGTERM, 143), (1, signal.SIGTERM, 143)])
def test_a_signal_to_the_job_or_to_any_rank_writes_a_checkpoint(to, signalled, code, tmp_path):
    job = Job(2, "endless", tmp_path, 60)
    os.kill(job.process.pid if to == "the job" else job.ranks[to], signalled)
    ended, errors = job.end()
    assert ended == code, errors
    assert errors.count(f"errorfeedback resume {tmp_path}") == 1
    assert (f"rank 1 (clients 3 to 6) was told to stop by {signalled.name}" in errors) or to != 1
    assert list(tmp_path.glob("round-*.ef"))


@pytest.mark.parametrize(("to", "signalled", "code"), [(0, signal.SIGTERM, 143), (1, signal.SIGINT, 130)])
def test_a_signal_ends_a_job_without_checkpoints_too(to, signalled, code):
    job = Job(2, "endless", "none", 60)
    os.kill(job.process.pid if to == "the job" else job.ranks[to], signalled)
    ended, errors = job.end()
    assert ended == code, errors
    assert f"stopped by {signalled.name}; there is no checkpoint to go on from" in errors
    assert (f"rank 1 (clients 3 to 6) was told to stop by {signalled.name}" in errors) or to != 1
    assert "Traceback" not in errors


@pytest.mark.parametrize("timeout", [0, 4.9, -1, float("nan")])
def test_a_timeout_that_a_busy_machine_would_trip_is_refused(timeout):
    with pytest.raises(ValueError, match=r"timeout = .*; it must be at least 5 seconds"):
        ef.MPI(timeout=timeout)
