"""Real kills of what Flower runs, in the middle of a federated run; the model is compared with that of one process.

    python tests/flower_kills.py --each 6      (about a minute each: a SuperNode may come back after 60 seconds only)

node: a SuperNode with all its processes is killed and started again; app: the process of its ClientApp alone;
server: the process of the ServerApp; Flower calls the run failed, and a second one goes on from the checkpoint;
link: the SuperLink is killed with the ServerApp, started again from its database, and a second run goes on likewise.
Which node, and after how many bytes in its journal, is drawn anew for every kill. The table has one line a kind.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np

from errorfeedback.certificates.trial_keys import write_keys
from errorfeedback.cli._site_config import config_of
from errorfeedback.cli.federate import _deal
from errorfeedback.cli.train import train
from errorfeedback.cli.verbs._training import Training
from errorfeedback.federated.loopback import new_federation
from errorfeedback.federated.processes import Processes, _marked
from errorfeedback.federated.site_files import write_site

NODES = ("node-0", "node-1", "node-2")
ROUNDS = 1500


def rows(path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 30)) * (rng.random((240, 30)) < 0.3)
    y = np.sign(X @ rng.standard_normal(30) + 0.1)
    lines = [f"{t:g} " + " ".join(f"{j + 1}:{v:.6g}" for j, v in enumerate(row) if v) for row, t in zip(X, y, strict=True)]
    path.write_text("\n".join(lines) + "\n")


def options(folder: Path, out: str) -> Training:
    data = folder / "rows.svm"
    return Training(data=str(data), clients=12, k=1, rounds=ROUNDS, tolerance=0.0, out=folder / out, quiet=True)


def begun(federation, processes: Processes, size: int) -> None:
    """Rounds go on: every node has a journal of so many bytes."""
    state = [federation.folder / "nodes" / node / "state" for node in federation.nodes]
    while not all(any(path.stat().st_size > size for path in each.glob("*.journal")) for each in state):
        for name, process in processes.running.items():
            assert process.poll() is None, f"{name} has ended"
        time.sleep(0.05)


def kill_node(federation, processes: Processes, node: str) -> None:
    """It is refused until two heartbeats have lapsed, and started again and again until then, as a supervisor would."""
    door, log = doors_of(processes)[node], processes.logs / f"{node}.log"
    processes.end([node], signal.SIGKILL)
    accepted = log.read_text().count("SuperNode ID")
    while log.read_text().count("SuperNode ID") == accepted:
        if node not in processes.running:
            federation.start_node(processes, node, door)
        elif processes.running[node].poll() is not None:
            processes.end([node])
        time.sleep(0.5)


def kill_app(federation, processes: Processes, node: str) -> None:
    kill_program(processes, node, b"flwr-clientapp")


def kill_server(federation, processes: Processes, node: str) -> None:
    kill_program(processes, "superlink", b"flwr-serverapp")
    while processes.running["control"].poll() is None:  # Flower has to notice
        time.sleep(0.1)
    assert processes.running["control"].returncode, "the run went to its end without a server"
    processes.end(["control"])
    federation.start_run(processes)


def kill_link(federation, processes: Processes, node: str) -> None:
    processes.end(["control", "superlink"], signal.SIGKILL)
    federation.start_link(processes)
    federation.start_run(processes)


def kill_program(processes: Processes, name: str, program: bytes) -> None:
    """All that runs this program, of what a process has started."""
    killed = 0
    for process in _marked([processes._marks[processes.running[name].pid]]):
        with suppress(OSError):  # it has just ended
            if program in Path(f"/proc/{process}/cmdline").read_bytes():
                os.kill(process, signal.SIGKILL)
                killed += 1
    assert killed, f"{name} has no {program.decode()}"


def doors_of(processes: Processes) -> dict[str, int]:
    words = {name: process.args for name, process in processes.running.items() if name in NODES}
    return {name: int(each[each.index("--superlink") + 1].partition(":")[2]) for name, each in words.items()}


KINDS = {"node": kill_node, "app": kill_app, "server": kill_server, "link": kill_link}


def numbers(out: Path) -> list[np.ndarray]:
    with np.load(out / "model.npz") as model:
        return [model[name] for name in ("coef", "places", "intercept")]


def one(folder: Path, kind: str, number: int, rng: np.random.Generator) -> tuple[bool, float]:
    """Whether the model of a run that is killed once is that of one process, and the seconds that it took."""
    began, asked = time.monotonic(), options(folder, f"run-{number}")
    federation = new_federation(asked.out / "federation", NODES)
    _deal(asked, federation)
    write_keys(federation.folder / "keys", NODES)
    more = {"checkpoint": str(folder / f"checkpoint-{number}"), "checkpoint_seconds": 1.0}
    write_site(federation.folder, NODES, config_of(asked, federation, "stream") | more, federation.port)
    with federation.started() as processes:
        begun(federation, processes, int(rng.integers(20_000, 100_000)))
        KINDS[kind](federation, processes, str(rng.choice(NODES)))
        processes.wait("control")
    same = all(map(np.array_equal, numbers(asked.out), numbers(folder / "local")))
    return same, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", type=int, default=1, help="kills of every kind")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng, runs = np.random.default_rng(asked.seed), {kind: list[tuple[bool, float]]() for kind in asked.kinds}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows(folder / "rows.svm")
        train(options(folder, "local"))
        for number in range(asked.each * len(asked.kinds)):
            kind = asked.kinds[number % len(asked.kinds)]
            runs[kind].append(one(folder, kind, number, rng))
            same, seconds = runs[kind][-1]
            print(f"kill {number + 1}: {kind}: {'the same' if same else 'ANOTHER'} model after {seconds:.0f} s", flush=True)
    print("| killed | times | the same model | seconds of a run, least to most |\n|---|---|---|---|")
    for kind, ends in runs.items():
        seconds = [each for _, each in ends]
        print(f"| {kind} | {len(ends)} | {sum(same for same, _ in ends)} | {min(seconds):.0f} to {max(seconds):.0f} |")
    sys.exit(not all(same for ends in runs.values() for same, _ in ends))


if __name__ == "__main__":
    main()
