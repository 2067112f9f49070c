"""Real processes that are killed, interrupted, or run out of disk: nothing is lost, and they say what to do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from unittest.mock import patch

import killing
import numpy as np
import pytest
from killing import holds, reached, solve
from launching import needs_mpi, started

import errorfeedback as ef

PROGRAM = """
import sys, resource, logging
import errorfeedback as ef

logging.basicConfig(format="%(message)s")
problem = ef.synthetic(n=12, d=40, m=3, c=4)
checkpoint = ef.Checkpoint(sys.argv[1], every=int(sys.argv[2]))
limit = int(sys.argv[3])
rounds = int(sys.argv[4])

def watch(row):
    if limit:  # the disk is full from here on
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    print(row["round"], flush=True)

options = {"rounds": rounds, "every": 500, "checkpoint": checkpoint, "watch": watch}
result = ef.solve(problem, ef.EF21(ef.TopK(2)), ef.RareFeatures(), **options)
print(result.x.tobytes().hex())
"""


def program(folder, every=1000, limit=0, rounds=10**9):
    return [sys.executable, "-c", PROGRAM, str(folder), str(every), str(limit), str(rounds)]


@pytest.mark.parametrize(("engine", "kills"), [("local", 6), ("threads", 6), pytest.param("mpi", 2, marks=needs_mpi)])
def test_a_process_killed_at_random_moments_loses_nothing(engine, kills):
    """In a process of its own, because it forks, and a test before this one may have started threads (JAX does)."""
    seed = str(np.random.default_rng().integers(2**32))
    command = [sys.executable, killing.__file__, "--kills", str(kills), "--engine", engine, "--seed", seed]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    counts = json.loads(done.stdout)
    assert counts["kills"] == kills
    assert counts["lost"] == 0
    assert counts["after a checkpoint"] > 0
    assert engine != "mpi" or counts["after a checkpoint"] == kills


def test_a_checkpoint_that_is_lost_or_changed_is_noticed(tmp_path):
    """Negative control of what is looked at after every kill."""
    whole = solve(ef.Local())
    with patch.dict("killing.LENGTHS", {"rounds": 200, "every": 50}):
        short = solve(ef.Local(), tmp_path)
    assert holds(tmp_path, short)
    assert not holds(tmp_path, whole)
    assert reached(tmp_path) == 201
    for path in tmp_path.glob("round-*.ef"):
        path.write_bytes(path.read_bytes()[:-1])
    assert reached(tmp_path) == -1


@pytest.mark.parametrize(("told", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["SIGINT", "SIGTERM"])
def test_a_signal_writes_a_checkpoint_and_says_how_to_go_on(told, code, tmp_path):
    process = started(program(tmp_path, every=10**8))
    while process.stdout.readline().strip() != "1000":
        pass
    process.send_signal(told)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == code
    assert f"stopped by {told.name}: wrote the state before round" in errors
    assert f"errorfeedback resume {tmp_path}" in errors
    (written,) = tmp_path.glob("round-*.ef")
    assert int(written.stem.split("-")[1]) > 1000


def test_a_full_disk_is_reported_and_training_goes_on(tmp_path):
    """A limit on the size of files makes a write fail as a full disk does: an error of the system, half way."""
    full, free = (
        subprocess.run(
            program(tmp_path / name, every=500, limit=limit, rounds=2000), capture_output=True, text=True, check=True
        )
        for name, limit in (("full", 1000), ("free", 0))
    )
    assert full.stdout == free.stdout
    assert full.stderr.count("training goes on") > 2
    assert free.stderr.count("training goes on") == 0
    assert not list((tmp_path / "full").glob("*.tmp"))


def test_the_command_line_resumes(tmp_path):
    problem = ef.synthetic(n=12, d=40, m=3, c=4)
    options = {"rounds": 200, "every": 50}
    whole = ef.solve(problem, ef.EF21(ef.TopK(2)), ef.RareFeatures(), **options)

    def fail(row):
        if row["round"] == 150:
            raise OSError("the machine went down")

    with pytest.raises(OSError, match="the machine went down"):
        ef.solve(
            problem, ef.EF21(ef.TopK(2)), ef.RareFeatures(), **options, checkpoint=ef.Checkpoint(tmp_path, 40), watch=fail
        )
    command = [sys.executable, "-m", "errorfeedback", "resume"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=True, env=os.environ)
    assert "ran all 200 rounds" in done.stdout
    assert np.array_equal(np.load(tmp_path / "x.npy"), whole.x)
    table = np.genfromtxt(tmp_path / "history.csv", delimiter=",", names=True)
    assert np.array_equal(table["uplink_bits"], whole.history["uplink_bits"])
    refused = subprocess.run([*command, str(tmp_path / "nothing")], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "no run.ef" in refused.stderr
