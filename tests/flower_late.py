"""A node that is started late joins a run over Flower's own processes; the model is compared with that of one process.

    python tests/flower_late.py      (about a minute)

Two SuperNodes of three are there when the run begins, with what `train` makes of the options alone; the third is started in
the middle. What must come of it: the model of the first two up to the round in which it joined, and from there that of all.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from dealt_rows import Here
from flower_kills import NODES, begun, numbers, rows

from errorfeedback.certificates.trial_keys import write_keys
from errorfeedback.cli._site_config import config_of
from errorfeedback.cli.federate import _deal, plan_of
from errorfeedback.cli.verbs._training import Training
from errorfeedback.estimators.base import LinearEF21
from errorfeedback.estimators.earlier import Earlier
from errorfeedback.estimators.model_file import load
from errorfeedback.federated.late_nodes import _start
from errorfeedback.federated.loopback import Federation, new_federation
from errorfeedback.federated.nodes import Nodes
from errorfeedback.federated.processes import Processes
from errorfeedback.federated.site import Site
from errorfeedback.federated.site_files import write_site

LATE = NODES[-1]


@dataclass(frozen=True)
class LateFederation(Federation):
    """Its last node is not started with the others."""

    doors: dict[str, int] = field(default_factory=dict)

    def start_node(self, processes: Processes, node: str, door: int) -> None:
        self.doors[node] = door
        if node != LATE:
            super().start_node(processes, node, door)

    def start_late(self, processes: Processes) -> None:
        super().start_node(processes, LATE, self.doors[LATE])


def federated(folder: Path, rounds: int) -> tuple[LateFederation, dict]:
    """A run that the last node joins late, and its configuration."""
    asked = Training(data=str(folder / "rows.svm"), clients=12, rounds=rounds, tolerance=0.0, out=folder / "run", quiet=True)
    plain = new_federation(asked.out / "federation", NODES)
    federation = LateFederation(plain.folder, plain.nodes, plain.port)
    _deal(asked, federation)
    write_keys(federation.folder / "keys", NODES)
    config = config_of(asked, federation, "stream") | {"wait": 3.0, "quorum": 2}
    write_site(federation.folder, NODES, config, federation.port)
    early = LateFederation(federation.folder, NODES[:-1], federation.port)
    with federation.started() as processes:
        begun(early, processes, 20_000)
        federation.start_late(processes)
        processes.wait("control")
    return federation, config


def expected(federation: Federation, config: dict, came: int) -> LinearEF21:
    """One process: some nodes up to the round in which the last one came, and all of them from there."""
    parts, first = [], plan_of(config)
    for count in (len(NODES) - 1, len(NODES)):
        sites = [Site(first.assignment, federation.data(node)) for node in NODES[:count]]
        nodes = Nodes(Here(sites), count)
        parts.append((nodes, nodes.gather()))
    (some, before), (every, after) = parts
    model, whole = first.model, plan_of(config).model
    model.max_iter = came
    model.fit_elsewhere(before.objective, before.learned, some)
    earlier = Earlier(_start(model, before, after), model.history_, model.n_iter_ + 1, model.bytes_up_, model.bytes_down_)
    whole.fit_elsewhere(after.objective, after.learned, every, earlier=earlier)
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=6000)
    asked, began = parser.parse_args(), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows(folder / "rows.svm")
        federation, config = federated(folder, asked.rounds)
        seconds = time.monotonic() - began
        notes = [
            str(value) for value in load(folder / "run" / "model.npz").provenance.values() if "joined after" in str(value)
        ]
        history = json.loads((folder / "run" / "history.json").read_text())
        came = int(notes[0].split("round ")[1].split(":")[0]) if notes else 0
        model = expected(federation, config, came)
        coef, _, intercept = numbers(folder / "run")
        same = np.array_equal(np.ravel(coef), np.ravel(model.coef_)) and np.array_equal(intercept, model.intercept_)
        print(json.dumps({"notes": notes, "rounds": history["round"][-1], "same": bool(same), "seconds": round(seconds)}))
    sys.exit(not (same and notes))


if __name__ == "__main__":
    main()
