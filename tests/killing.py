"""Kill a run with SIGKILL at random moments, many times, and see that nothing is lost.

    python tests/killing.py --kills 200 --engine threads

A child begins (or resumes) a run that writes a checkpoint every few rounds; the parent kills it at a random moment, again
and again until the run is finished; then the result is compared, bit for bit, with a run that was left alone.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from shutil import rmtree

import numpy as np

import errorfeedback as ef

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


class Forked:
    """A child of this process, in which everything is imported and compiled, so that it is in its rounds at once."""

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

    def killed_after(self, seconds):
        """False where the child was done before."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                assert status == 0, f"the child failed: {status}"
                return False
            time.sleep(0.001)
        os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        return os.WIFSIGNALED(status)


def same(a, b):
    columns = a.history.keys() - {"seconds"}
    return np.array_equal(a.x, b.x) and all(np.array_equal(a.history[c], b.history[c], equal_nan=True) for c in columns)


class Mpiexec:
    """A job of two ranks, of which one is killed."""

    def __init__(self, engine, folder):
        beside = Path(sys.executable).with_name("mpiexec")
        command = [str(beside) if beside.exists() else "mpiexec", "-n", "2", sys.executable, __file__]
        self.job = subprocess.Popen(
            [*command, "--engine", engine, "--child", folder], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def killed_after(self, seconds):
        """False where the job was done before."""
        ranks = [int(line.split()[1]) for line in (self.job.stdout.readline() for _ in range(2)) if line.startswith("rank")]
        try:
            self.job.wait(20 * seconds)
        except subprocess.TimeoutExpired:
            os.kill(ranks[int(1e6 * seconds) % 2], signal.SIGKILL)
            self.job.wait(30)
        self.job.stdout.close()
        return self.job.returncode != 0


STARTS = {"local": Forked, "threads": Forked, "mpi": Mpiexec}


def kill_many(engine, kills, rng, longest=0.15):
    """How many kills fell into a run, how many left a half-written file, how many runs ended, and how many differ then."""
    counts = {"kills": 0, "half written": 0, "finished": 0, "lost": 0}
    whole = solve(ef.Local())
    solve(ENGINES["threads"](), None)  # compiles what a child would
    while counts["kills"] < kills:
        folder = tempfile.mkdtemp(prefix="killing-")
        while counts["kills"] < kills and STARTS[engine](engine, folder).killed_after(rng.uniform(0, longest)):
            counts["kills"] += 1
            counts["half written"] += bool(list(Path(folder).glob("*.tmp")))
        if not (Path(folder) / "run.ef").exists():
            solve(ef.Local(), folder)
        counts["finished"] += 1
        counts["lost"] += not same(whole, ef.resume(folder))
        rmtree(folder)
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
    print(given.engine, counts, f"{time.time() - begin:.0f} s")
    sys.exit(counts["lost"] > 0)


if __name__ == "__main__":
    main()
