"""Kill a run with SIGKILL at random moments, many times, and see that nothing is lost.

    python tests/killing.py --kills 200 --engine threads

A child begins (or resumes) a run that writes a checkpoint every few rounds; the parent kills it at a random moment after it
has written a new one (sometimes before), again and again until the run is finished. After every kill the newest checkpoint
that was there before must still be there, or a newer one, and what the folder holds is finished on the side and compared,
bit for bit, with a run that was left alone.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from shutil import copytree
from unittest.mock import patch

import numpy as np

import errorfeedback as ef
from errorfeedback.storage.checkpoint import Folder
from errorfeedback.storage.files import DamagedError, read

ENGINES = {"mpi": ef.MPI, "local": lambda: ef.Local(2), "threads": lambda: ef.Threads(2)}
LENGTHS = {"rounds": 3000, "every": 50}
CHECKPOINT_EVERY = 3
"""So often that most kills fall into the writing of a file."""


def solve(engine, folder=None):
    problem = ef.synthetic(n=12, d=40, m=3, c=4)
    checkpoint = None if folder is None else ef.Checkpoint(folder, every=CHECKPOINT_EVERY)
    rule = ef.Adaptive(sketch=4)
    return ef.solve(problem, ef.EF21(ef.TopK(2)), rule, **LENGTHS, seed=5, engine=engine, checkpoint=checkpoint)


def go_on(engine, folder):
    """Begin the run, or go on with it."""
    if (Path(folder) / "run.ef").exists():
        ef.resume(folder, engine=ENGINES[engine]())
    else:
        solve(ENGINES[engine](), folder)


def reached(folder):
    """The round of the newest checkpoint that can be read; -1 where there is none."""
    for path in Folder(Path(folder)).rounds():
        try:
            return read(path)["round"]
        except (DamagedError, OSError):  # dropped by the run meanwhile, or half lost
            continue
    return -1


class Forked:
    """A child of this process, in which everything is imported and compiled, so that it is in its rounds at once."""

    early = 0.2
    """The share of kills that do not wait for a checkpoint."""

    def __init__(self, engine, folder):
        self.pid = os.fork()
        if self.pid == 0:
            code = 1
            try:
                logging.disable()
                go_on(engine, folder)
                code = 0
            finally:
                os._exit(code)

    def done(self):
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        assert status == 0, f"the child failed: {status}"
        return bool(pid)

    def kill(self, rng):
        """False where the child was done before."""
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        return os.WIFSIGNALED(status)


class Mpiexec:
    """A job of two ranks, of which one is killed."""

    early = 0.0  # it would be killed while it starts

    def __init__(self, engine, folder):
        beside = Path(sys.executable).with_name("mpiexec")
        command = [str(beside) if beside.exists() else "mpiexec", "-n", "2", sys.executable, __file__]
        self.job = subprocess.Popen(
            [*command, "--engine", engine, "--child", folder], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        with self.job.stdout as said:
            self.ranks = [int(said.readline().split()[1]) for _ in range(2)]

    def done(self):
        code = self.job.poll()
        assert not code, f"the job failed: {code}"
        return code == 0

    def kill(self, rng):
        """False where the job was done before."""
        with suppress(ProcessLookupError):
            os.kill(self.ranks[rng.integers(2)], signal.SIGKILL)
        return self.job.wait(60) != 0


STARTS = {"local": Forked, "threads": Forked, "mpi": Mpiexec}


def killed(engine, folder, rng, longest):
    """(whether a kill fell into the run, the checkpoint that was there before it)."""
    before, child = reached(folder), STARTS[engine](engine, folder)
    early = rng.random() < child.early
    while not early and reached(folder) <= before:
        if child.done():
            return False, before
        time.sleep(0.001)
    time.sleep(rng.uniform(0, longest))
    seen = reached(folder)
    return not child.done() and child.kill(rng), seen


def same(a, b):
    columns = a.history.keys() - {"seconds"}
    return np.array_equal(a.x, b.x) and all(np.array_equal(a.history[c], b.history[c], equal_nan=True) for c in columns)


def holds(folder, whole):
    """Whether what is in the folder leads to the same end; finished on the side, without writing."""
    with tempfile.TemporaryDirectory(prefix="killing-") as side, patch.object(Folder, "save"):
        copy = copytree(folder, Path(side) / "run")
        return not (copy / "run.ef").exists() or same(whole, ef.resume(copy))


def kill_many(engine, kills, rng, longest=0.1):
    """How many kills fell into a run, how many of them after a checkpoint, how many left a half-written file, how many runs
    ended, and how many of all these would not have come to the same end."""
    counts = {"kills": 0, "after a checkpoint": 0, "half written": 0, "finished": 0, "lost": 0}
    whole = solve(ef.Local())
    solve(ENGINES["threads"](), None)  # compiles what a child would
    while counts["kills"] < kills:
        with tempfile.TemporaryDirectory(prefix="killing-") as folder:
            while counts["kills"] < kills:
                fell, seen = killed(engine, folder, rng, longest)
                counts["lost"] += reached(folder) < seen or not holds(folder, whole)
                if not fell:
                    counts["finished"] += 1
                    break
                counts["kills"] += 1
                counts["after a checkpoint"] += seen > 0
                counts["half written"] += bool(list(Path(folder).glob("*.tmp")))
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--engine", choices=ENGINES, default="local")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", metavar="FOLDER")
    given = parser.parse_args()
    if given.child:
        os.write(1, f"rank {os.getpid()}\n".encode())
        go_on(given.engine, given.child)
        return
    begin = time.time()
    counts = kill_many(given.engine, given.kills, np.random.default_rng(given.seed))
    print(json.dumps({"engine": given.engine, **counts, "seconds": round(time.time() - begin)}))
    sys.exit(counts["lost"] > 0)


if __name__ == "__main__":
    main()
