"""`errorfeedback federate`: nodes with rows of their own train one model, over Flower."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import typer
from scipy import sparse

from errorfeedback.certificates.trial_keys import write_keys
from errorfeedback.cli._data import budget_of, reading_of
from errorfeedback.cli._inputs import Estimator, estimator_of, rows_of
from errorfeedback.cli._outcome import Judged, Outcome
from errorfeedback.cli.verbs._reading import IndexBase
from errorfeedback.cli.verbs._training import Training
from errorfeedback.data.dealing import deal, deal_files
from errorfeedback.data.parts import files_of
from errorfeedback.data.read import open_raw
from errorfeedback.data.reading import Missing
from errorfeedback.data.rows import Data
from errorfeedback.estimators.model_file import MODEL, load
from errorfeedback.federated.assignment import Assignment
from errorfeedback.federated.federated_plan import MESSAGES, PATIENCE, Crossed, FederatedPlan, FederatedRun
from errorfeedback.federated.loopback import TRAFFIC, Federation, new_federation
from errorfeedback.federated.site_files import write_site
from errorfeedback.planner.units import human_bytes
from errorfeedback.problems.conversation import alone

OWN: dict[str, Any] = {"nodes": "", "out": "run", "path": "stream", "host": "127.0.0.1", "port": 0, "patience": PATIENCE}
OWN |= {
    "checkpoint": "",
    "checkpoint_seconds": 60.0,
    "deadline": 0.0,
    "quorum": 0,
    "wait": 0.0,
    "traffic": "",
    "command": "",
}
"""Keys of a run's configuration beside the options of `train`, with what they are where nobody says so."""
LISTS = ("drop", "only", "text", "number")
READ: dict[str, Callable[[str], Any]] = {"missing": Missing, "index_base": IndexBase}
READ |= {name: lambda text: text.split(",") for name in LISTS}
"""Options of `train` that are more than a number or a text; lists are separated by commas."""
ELSEWHERE = ("data", "clients", "groups", "valid", "network", "quiet", "engine", "timeout")
"""Options of `train` that a server of nodes has no use for: who has which rows is the nodes' business."""


def init(folder: Path, nodes: int, port: int) -> None:
    """All that a site needs, for so many nodes."""
    names = _names(nodes)
    _refuse_full(folder)
    write_keys(folder / "keys", names)
    write_site(
        folder,
        names,
        OWN | {"nodes": ", ".join(f"{name}: 1" for name in names), "out": str(folder.absolute() / "run")},
        port,
    )
    typer.echo(f"Written: {folder}; how to start it: {folder / 'README.md'}")


def try_(options: Training, nodes: int, path: str, deadline: float, quorum: int) -> None:
    """A whole federation on this machine."""
    names = _names(nodes)
    for option in ("valid", "network"):
        if getattr(options, option) is not None:
            raise ValueError(f"--{option}: not with nodes, whose rows nobody else sees; leave it out")
    federation = new_federation(options.out / "federation", names)
    _refuse_full(federation.folder)
    _deal(options, federation)
    write_keys(federation.folder / "keys", names)
    config = _config(options, federation, path) | {"deadline": deadline, "quorum": quorum}
    write_site(federation.folder, names, config, federation.port)
    federation.run()
    for name, value in load(options.out / MODEL).provenance.items():
        if name not in ("parameters", "target", "command"):
            typer.echo(f"{name}: {value}")
    typer.echo(f"Written: {options.out}")


def plan_of(config: Mapping[str, Any]) -> FederatedPlan:
    """What a run's configuration asks for."""
    given = {name.replace("-", "_"): value for name, value in config.items()}
    own = OWN | {name: value for name, value in given.items() if name in OWN}
    options = _options({name: value for name, value in given.items() if name not in OWN}, Path(str(own["out"])))
    model = _model(options)
    return FederatedPlan(
        model=model,
        assignment=Assignment.of(model, reading_of(options)),
        nodes=_nodes(str(own["nodes"])),
        path=str(own["path"]),
        host=str(own["host"]),
        port=int(own["port"]),
        patience=float(own["patience"]),
        checkpoint=Path(str(own["checkpoint"])) if own["checkpoint"] else None,
        checkpoint_seconds=float(own["checkpoint_seconds"]),
        deadline=float(own["deadline"]) or None,
        quorum=int(own["quorum"]) or None,
        wait=float(own["wait"]) or None,
    )


def finish(run: FederatedRun, config: Mapping[str, Any]) -> None:
    """Write the model, the history and the report of a run."""
    own, common, model = OWN | dict(config), run.common, run.plan.model
    rows = Data(
        A=sparse.csr_array((0, model.n_features_in_)),
        y=None,
        clients=None,
        encoding=common.encoding,
        name=f"{len(run.plan.nodes)} nodes",
    )
    assert isinstance(model, Estimator), "it is what `plan_of` made"
    target = run.plan.assignment.reading.target
    command, facts = str(own["command"]), _facts(run, str(own["traffic"]))
    Outcome(model, rows, _judged(run), "", None, target, command, facts).write(Path(str(own["out"])))


def _names(nodes: int) -> list[str]:
    return [f"node-{k}" for k in range(nodes)]


def _refuse_full(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is there already, and keys and rows are not written over; name another place")


def _deal(options: Training, federation: Federation) -> None:
    """Every node's own files."""
    folders = [federation.data(node) for node in federation.nodes]
    if Path(options.data).is_dir():
        if options.client_column is not None:
            raise ValueError("--client-column: a trial deals the files of a folder, each of which is a client; leave it out")
        deal_files(Path(options.data), folders)
        return
    data = alone(lambda seat: rows_of(options, seat))
    assert data.clients is not None, "they were dealt"
    rows = np.arange(data.file_rows) if data.kept is None else np.flatnonzero(data.kept)
    reading = reading_of(options)
    deal(open_raw(options.data, reading).path, reading.limit, rows, data.clients, folders)


def _config(options: Training, federation: Federation, path: str) -> dict[str, Any]:
    """The configuration of a trial's run: what is asked for beside the defaults."""
    counts = {node: len(files_of(str(federation.data(node)))) for node in federation.nodes}
    own = {"nodes": ", ".join(f"{node}: {count}" for node, count in counts.items()), "path": path}
    own |= {"out": str(options.out.absolute())}
    own |= {
        "traffic": str((federation.folder / TRAFFIC).absolute()),
        "command": shlex.join(["errorfeedback", *sys.argv[1:]]),
    }
    own |= {} if options.checkpoint is None else {"checkpoint": str(options.checkpoint.absolute())}
    asked = {f.name: getattr(options, f.name) for f in fields(Training) if f.name not in (*ELSEWHERE, *OWN)}
    defaults = {f.name: f.default for f in fields(Training)}
    changed = {name: value for name, value in asked.items() if value != defaults[name] and value is not None}
    return OWN | own | {name: ",".join(value) if name in LISTS else value for name, value in changed.items()}


def _options(given: Mapping[str, Any], out: Path) -> Training:
    """The options of `train` in a configuration."""
    known = {f.name for f in fields(Training)} - set(ELSEWHERE) - set(OWN)
    unknown = [name for name in given if name not in known]
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: no such setting; there are {', '.join(sorted(known | set(OWN)))}")
    said = {name: value for name, value in given.items() if value != ""}
    asked = {name: READ[name](value) if name in READ else value for name, value in said.items()}
    return Training(data="nodes", out=out, **asked)


def _model(options: Training) -> Estimator:
    budget = budget_of(options.budget)
    return estimator_of(options, k=options.k, rounds=options.rounds, tolerance=options.tolerance, budget=budget)


def _nodes(text: str) -> dict[str, int]:
    """From "clinic: 3, laboratory: 12" how many clients every node has."""
    pairs = [part.partition(":") for part in text.split(",") if part.strip()]
    for name, _, count in pairs:
        if not name.strip() or not count.strip().isdigit():
            raise ValueError(f'nodes = {text!r}; it must be of the form "node-0: 3, node-1: 12": names, and clients of each')
    return {name.strip(): int(count) for name, _, count in pairs}


def _judged(run: FederatedRun) -> dict[str, Judged]:
    """What every node says, and of how many rows."""
    total = Judged(sum(each.rows for each in run.judgements.values()), {})
    return {"training": total} | {name: Judged(each.rows, each.scores) for name, each in run.judgements.items()}


def _facts(run: FederatedRun, traffic: str) -> list[tuple[str, Any]]:
    """What the engine itself cost."""
    model, n = run.plan.model, len(run.common.objective.clients)
    facts: list[tuple[str, Any]] = [
        ("path", run.plan.path),
        ("seconds to join, to prepare, to train", f"{run.joining:.2f}, {run.preparing:.2f}, {run.training:.2f}"),
        ("frames counted", f"{human_bytes(n * model.bytes_up_)} up, {human_bytes(n * model.bytes_down_)} down"),
    ]
    facts += [(f"note {k}", note) for k, note in enumerate(model.history_.notes, 1)]
    gone = [name for name in run.plan.nodes if name not in run.judgements]
    if gone:
        facts.append(("not there at the end, and not in the loss", ", ".join(gone)))
    if run.crossed is not None and run.before is not None:
        facts.append(("measured at the stream's sockets", _sum(run.crossed)))
        facts.append(("of these before round 0, as packed arrays", _sum(run.before)))
    if traffic and Path(traffic).exists():
        counts = json.loads(Path(traffic).read_text())
        words = "at Flower's sockets" + ("" if run.plan.path == MESSAGES else " (invitations, polls, heartbeats)")
        facts.append((f"measured {words}", _sum([Crossed(*counts[node]) for node in run.plan.nodes])))
    return facts


def _sum(crossed: Sequence[Crossed]) -> str:
    return f"{human_bytes(sum(each.up for each in crossed))} up, {human_bytes(sum(each.down for each in crossed))} down"
