"""Real kills of what Flower runs, in the middle of a federated run; the model is compared with that of one process.

    python tests/flower_kills.py --kills 3      (some minutes each: a SuperNode may come back after 60 seconds only)

node: a SuperNode with all its processes is killed and started again; app: the process of its ClientApp alone;
link: the SuperLink is killed with the ServerApp, started again from its database, and a second run goes on from the
checkpoint.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

import numpy as np

from errorfeedback.certificates.trial_keys import write_keys
from errorfeedback.cli.federate import _config, _deal
from errorfeedback.cli.train import train
from errorfeedback.cli.verbs._training import Training
from errorfeedback.federated.loopback import new_federation
from errorfeedback.federated.processes import Processes
from errorfeedback.federated.site_files import write_site

NODES = ("node-0", "node-1", "node-2")
ROUNDS = 4000


def rows(path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 30)) * (rng.random((240, 30)) < 0.3)
    y = np.sign(X @ rng.standard_normal(30) + 0.1)
    lines = [f"{t:g} " + " ".join(f"{j + 1}:{v:.6g}" for j, v in enumerate(row) if v) for row, t in zip(X, y, strict=True)]
    path.write_text("\n".join(lines) + "\n")


def options(folder: Path, out: str) -> Training:
    data = folder / "rows.svm"
    return Training(data=str(data), clients=12, k=1, rounds=ROUNDS, tolerance=0.0, out=folder / out, quiet=True)


def begun(federation, processes: Processes) -> None:
    """Rounds go on: the journal of every node grows."""
    state = [federation.folder / "nodes" / node / "state" for node in federation.nodes]
    while not all(any(path.stat().st_size > 50_000 for path in each.glob("*.journal")) for each in state):
        for name, process in processes.running.items():
            assert process.poll() is None, f"{name} has ended"
        time.sleep(0.05)


def kill_node(federation, processes: Processes) -> None:
    """It is refused until two heartbeats have lapsed, and started again and again until then, as a supervisor would."""
    door, log = doors_of(processes)["node-1"], processes.logs / "node-1.log"
    processes.end(["node-1"], signal.SIGKILL)
    accepted = log.read_text().count("SuperNode ID")
    while log.read_text().count("SuperNode ID") == accepted:
        if "node-1" not in processes.running:
            federation.start_node(processes, "node-1", door)
        elif processes.running["node-1"].poll() is not None:
            processes.end(["node-1"])
        time.sleep(0.5)


def kill_app(federation, processes: Processes) -> None:
    session = processes.running["node-1"].pid
    for place in Path("/proc").iterdir():
        if (
            place.name.isdigit()
            and os.getsid(int(place.name)) == session
            and b"flwr-clientapp" in (place / "cmdline").read_bytes()
        ):
            os.kill(int(place.name), signal.SIGKILL)


def kill_link(federation, processes: Processes) -> None:
    processes.end(["control", "superlink"], signal.SIGKILL)
    federation.start_link(processes)
    federation.start_run(processes)


def doors_of(processes: Processes) -> dict[str, int]:
    words = {name: process.args for name, process in processes.running.items() if name in NODES}
    return {name: int(each[each.index("--superlink") + 1].partition(":")[2]) for name, each in words.items()}


KINDS = {"node": kill_node, "app": kill_app, "link": kill_link}


def numbers(out: Path) -> list[np.ndarray]:
    with np.load(out / "model.npz") as model:
        return [model[name] for name in ("coef", "places", "intercept")]


def one(folder: Path, kind: str, expected: list[np.ndarray]) -> float:
    """Seconds of a run that is killed once."""
    began, asked = time.monotonic(), options(folder, f"run-{kind}")
    federation = new_federation(asked.out / "federation", NODES)
    _deal(asked, federation)
    write_keys(federation.folder / "keys", NODES)
    more = {"checkpoint": str(folder / f"checkpoint-{kind}"), "checkpoint_seconds": 1.0}
    write_site(federation.folder, NODES, _config(asked, federation, "stream") | more, federation.port)
    with federation.started() as processes:
        begun(federation, processes)
        KINDS[kind](federation, processes)
        processes.wait("control")
    assert all(map(np.array_equal, numbers(asked.out), expected)), f"{kind}: not the same model"
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows(folder / "rows.svm")
        train(options(folder, "local"))
        expected = numbers(folder / "local")
        for number, kind in enumerate(islice(cycle(asked.kinds), asked.kills)):
            seconds = one(folder, kind, expected)
            (folder / f"run-{kind}").rename(folder / f"done-{number}")
            print(f"kill {number + 1}: {kind}: the same model after {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    main()
