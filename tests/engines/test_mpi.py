"""Under real mpiexec: the same bits on 1 to 3 ranks, every byte counted, failures that name the rank, exact resumption."""

from __future__ import annotations

import subprocess
import sys
from shutil import copytree

import pytest
from launching import ENVIRONMENT, MPIEXEC, TIMEOUT, mpiexec, needs_mpi, told

pytestmark = needs_mpi


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_method_and_compressor_has_the_same_bits_on_any_number_of_ranks(ranks):
    line, *_ = told(mpiexec(ranks, "conformance"), ranks, "same bits")
    assert int(line.split()[-1]) > 80


@pytest.mark.parametrize(
    ("ranks", "rules"), [(1, ["absent"]), (2, ["absent", "sketch", "curvature"]), (3, ["automatic"])], ids=[1, 2, 3]
)
def test_uplink_bits_are_the_bytes_that_crossed_mpi(ranks, rules):
    told(mpiexec(ranks, "count", *rules), ranks, "counted")


def test_ranks_are_sent_only_their_own_part_of_x_where_that_is_less():
    """On three ranks: each feature is on one of them, or on all; beside x go the commands and the result."""
    line, *_ = told(mpiexec(3, "down"), 3, "down")
    rare, common, whole = map(int, line.split()[1:])
    assert rare < 0.6 * whole <= common


def test_ranks_that_were_not_given_the_same_refuse_and_name_what_differs():
    told(mpiexec(3, "disagree"), 3, "refused")


@pytest.mark.parametrize(
    ("rank", "words"), [(1, "errorfeedback: rank 1 failed: ValueError: Input X contains NaN"), (0, "rank 0 ended the run")]
)
def test_a_rank_that_cannot_be_set_up_is_named_and_nobody_waits_for_it(rank, words):
    done = mpiexec(3, "unfit", rank)
    assert done.returncode != 0
    assert words in done.stderr
    assert "heard of" not in done.stderr
    assert "left the program" not in done.stderr
    assert ("refused on 0" in done.stdout) == (rank == 0)


def test_ranks_with_different_commands_end_the_job_before_anything_is_read(tmp_path):
    train = [sys.executable, "-m", "errorfeedback", "train", "no such data", "--engine", "mpi", "--out", str(tmp_path)]
    command = [MPIEXEC, "-n", "1", *train, ":", "-n", "1", *train, "--rounds", "7"]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=TIMEOUT, check=False)
    assert done.returncode != 0
    assert "the ranks must be given the same, but the command is" in done.stderr
    assert '--rounds 7" on rank 1; the job ends' in done.stderr
    assert "no such file" not in done.stderr.lower()


def test_a_file_that_rank_0_cannot_read_is_named_once(tmp_path):
    train = [sys.executable, "-m", "errorfeedback", "train", "no such data", "--engine", "mpi", "--out", str(tmp_path)]
    command = [MPIEXEC, "-n", "3", *train]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=TIMEOUT, check=False)
    assert done.returncode != 0
    assert done.stderr.count("errorfeedback: rank 0 failed: FileNotFoundError: no such data: no such file") == 1
    assert "rank 0 ended the run" not in done.stderr


def test_an_answer_that_was_damaged_ends_the_job_with_the_reason():
    done = mpiexec(2, "damage")
    assert done.returncode != 0
    assert "WireError: the message of client" in done.stderr
    assert "not noticed" not in done.stdout


def test_a_rank_that_raises_ends_the_job_and_another_number_of_ranks_resumes_it(tmp_path):
    done = mpiexec(3, "fail", "raise", tmp_path)
    assert done.returncode != 0
    assert "rank 1 (clients 2 to 3) failed: FloatingPointError: the disk of this node is gone" in done.stderr
    assert "died" not in done.stderr
    assert (tmp_path / "round-000000000004.ef").exists()
    told(mpiexec(2, "resume", tmp_path), 2, "same bits")


def test_a_rank_that_is_killed_ends_the_job_and_another_number_of_ranks_resumes_it(tmp_path):
    done = mpiexec(2, "fail", "kill", tmp_path)
    assert done.returncode != 0
    assert done.stderr.count("died") == 1
    assert "rank 1 (clients 3 to 6) died: it was killed or crashed" in done.stderr
    assert (tmp_path / "round-000000000004.ef").exists()
    copytree(tmp_path, tmp_path / "copy")
    told(mpiexec(3, "resume", tmp_path), 3, "same bits")
    command = [MPIEXEC, "-n", "2", sys.executable, "-m", "errorfeedback", "resume", str(tmp_path / "copy"), "--mpi"]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=TIMEOUT, check=False)
    assert done.stdout.count("ran all 7 rounds") == 1, done.stdout + done.stderr
    assert (tmp_path / "copy" / "x.npy").exists()
