"""What a round costs over the stream, with and without a journal, beside Local and MPI: ratios within one run.

    python benchmarks/stream.py

Three nodes are processes on this machine, thirty clients lie on them, and EF21 with TopK(1) sends a number per client. Each
engine runs the same rounds, comes to the same bits, and is measured by its own clock, in chunks of rounds: the best of them
(whatever else a shared machine does only adds time) and the one in the middle.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from shutil import which
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import errorfeedback as ef

N, D, M = 30, 200, 20
NODES = {f"node {k}": range(10 * k, 10 * k + 10) for k in range(3)}
ROUNDS, CHUNK = 600, 2
OPTIONS: dict[str, Any] = {
    "method": ef.EF21(ef.TopK(1)),
    "stepsize": ef.Constant(1e-3),
    "rounds": ROUNDS,
    "every": CHUNK,
    "metrics": False,
}
MEASURED = "MEASURED "


def rows(clients: range) -> ef.Problem:
    """What these clients have."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((N * M, D)) * (rng.random((N * M, D)) < 0.1)
    A[:, 0] = 1.0
    b, owner = rng.standard_normal(N * M), np.repeat(np.arange(N), M)
    mine = (clients.start <= owner) & (owner < clients.stop)
    return ef.least_squares(A[mine], b[mine], owner[mine])


def live(packed: bytes, clients: range, folder: str | None) -> None:
    """A node's process."""
    ef.join(ef.Invitation.unpack(packed), ef.OwnRows(rows(clients)), None if folder is None else Path(folder))


@contextmanager
def processes(listener: ef.Listener, folder: str | None) -> Iterator[None]:
    spawn = get_context("spawn")
    given = [(listener.invitation(name).pack(), clients, folder) for name, clients in NODES.items()]
    nodes = [spawn.Process(target=live, args=each, daemon=True) for each in given]
    for node in nodes:
        node.start()
    with listener:
        yield
    for node in nodes:
        node.join(30)


def streamed(folder: str | None) -> dict[str, Any]:
    listener = ef.Listener(NODES)
    with processes(listener, folder):
        transport = listener.transport()
        problem, _ = ef.gathered(transport, len(NODES))
        before = listener.traffic()
        result = ef.solve(problem, **OPTIONS, engine=ef.Elsewhere(transport))
        crossed = np.array(list(listener.traffic().values())) - np.array(list(before.values()))
    down, up = crossed.sum(axis=0) / ROUNDS
    return measured(result) | {"down": down, "up": up}


def measured(result: ef.Result) -> dict[str, Any]:
    """Milliseconds of a round, and what else there is to compare."""
    chunks = np.diff(result.history["seconds"]) * 1000 / CHUNK
    frames = {way: float(result.history[f"{way}_bits"][-1]) / 8 / ROUNDS for way in ("downlink", "uplink")}
    return {"best": float(chunks.min()), "median": float(np.median(chunks)), "x": result.x.tobytes().hex(), **frames}


def over_mpi() -> dict[str, Any] | None:
    """Three ranks; None where there is no MPI."""
    beside = Path(sys.executable).with_name("mpiexec")
    command = str(beside) if beside.exists() else which("mpiexec")
    if command is None:
        return None
    job = [command, "-n", "3", sys.executable, __file__, "--rank"]
    done = subprocess.run(job, capture_output=True, text=True, check=True, timeout=600)
    (line,) = (line for line in done.stdout.splitlines() if line.startswith(MEASURED))
    found: dict[str, Any] = json.loads(line.removeprefix(MEASURED))
    return found


def rank() -> None:
    engine = ef.MPI()
    result = ef.solve(rows(range(N)), **OPTIONS, engine=engine)
    if engine.leads:
        print(MEASURED + json.dumps(measured(result)), flush=True)


def table(seen: dict[str, dict[str, Any]]) -> Table:
    shown = Table("engine", "ms a round, best", "median", "x Local", "bytes a round, up and down", "of which frames")
    for name, row in seen.items():
        crossed = f"{row['up']:.0f}, {row['down']:.0f}" if "up" in row else ""
        times = f"{row['best']:.3f}", f"{row['median']:.3f}", f"{row['best'] / seen['Local']['best']:.1f}"
        shown.add_row(name, *times, crossed, f"{row['uplink']:.0f}, {row['downlink']:.0f}")
    return shown


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", action="store_true", help="this is a rank of the MPI job")
    if parser.parse_args().rank:
        rank()
        return
    with tempfile.TemporaryDirectory(prefix="stream-", dir=".") as folder:
        seen = {
            "Local": measured(ef.solve(rows(range(N)), **OPTIONS)),
            "stream": streamed(None),
            "stream, synced journal": streamed(folder),
        }
    mpi = over_mpi()
    seen |= {} if mpi is None else {"MPI": mpi}
    assert len({row["x"] for row in seen.values()}) == 1, "all engines come to the same bits"
    Console(width=120).print(table(seen))


if __name__ == "__main__":
    main()
