"""`errorfeedback federate`: nodes with rows of their own train one model, over Flower."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer
from scipy import sparse

from errorfeedback.certificates.trial_keys import write_keys
from errorfeedback.cli._data import reading_of
from errorfeedback.cli._held import how_drawn, share_of
from errorfeedback.cli._inputs import Estimator, rows_of, trained_by
from errorfeedback.cli._outcome import HELD, Judged, Outcome
from errorfeedback.cli._site_config import OWN, config_of, nodes_of, settings_of
from errorfeedback.cli.verbs._training import Training
from errorfeedback.data.dealing import deal, deal_files
from errorfeedback.data.read import open_raw
from errorfeedback.data.rows import Data
from errorfeedback.estimators.model_file import MODEL, load
from errorfeedback.estimators.scores import measured
from errorfeedback.federated.assignment import Assignment
from errorfeedback.federated.federated_plan import MESSAGES, FederatedPlan, FederatedRun
from errorfeedback.federated.loopback import Federation, new_federation
from errorfeedback.federated.site_files import write_site
from errorfeedback.federated.traffic import Crossed
from errorfeedback.planner.network import Links
from errorfeedback.planner.units import human_bytes
from errorfeedback.problems.conversation import alone


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
    if options.groups is not None and options.network and list(Links.parse(options.network).classes) != ["*"]:
        raise ValueError(
            "--network has classes of clients, and their names in --groups are not in the rows that a trial deals "
            "to nodes; use --client-column, or one network for all"
        )
    federation = new_federation(options.out / "federation", names)
    _refuse_full(federation.folder)
    _deal(options, federation)
    write_keys(federation.folder / "keys", names)
    config = config_of(options, federation, path) | {"deadline": deadline, "quorum": quorum}
    write_site(federation.folder, names, config, federation.port)
    federation.run()
    for name, value in load(options.out / MODEL).provenance.items():
        if name not in ("parameters", "target", "command"):
            typer.echo(f"{name}: {value}")
    typer.echo(f"Written: {options.out}")


def plan_of(config: Mapping[str, Any]) -> FederatedPlan:
    """What a run's configuration asks for."""
    own, options = settings_of(config)
    model, share = trained_by(options), share_of(options.valid)
    return FederatedPlan(
        model=model,
        assignment=Assignment.of(model, reading_of(options), share, judged=options.valid is not None and share is None),
        nodes=nodes_of(str(own["nodes"])),
        valid=options.valid if share is None else None,
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
    (own, options), common, model = settings_of(config), run.common, run.plan.model
    rows = Data(
        A=sparse.csr_array((0, model.n_features_in_)),
        y=None,
        clients=None,
        encoding=common.encoding,
        name=f"{len(run.plan.nodes)} nodes",
    )
    assert isinstance(model, Estimator), "it is what `plan_of` made"
    links = Links.parse(options.network) if options.network else None
    command, facts = str(own["command"]), _facts(run, str(own["traffic"]))
    judged = _judged(run, options.valid)
    Outcome(model, rows, judged, how_drawn(options), links, options.target, command, facts).write(options.out)


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


def _judged(run: FederatedRun, valid: str | None) -> dict[str, Judged]:
    """What every node says, and of how many rows."""
    nodes = run.judgements
    judged = {"training": Judged(sum(each.rows for each in nodes.values()), {})}
    judged |= {name: Judged(each.rows, each.scores) for name, each in nodes.items()}
    judged |= {f"{name}, {HELD}": Judged(each.held_rows, each.held_scores) for name, each in nodes.items() if each.held_rows}
    if run.held is not None:
        model, held = run.plan.model, run.held
        scores = measured(model, model.decision(held.A), np.asarray(held.y), held.weights)
        return {f"{HELD} ({valid})": Judged(held.A.shape[0], scores)} | judged
    rows = sum(each.held_rows for each in nodes.values())
    return ({f"{HELD} ({valid})": Judged(rows, {})} if rows else {}) | judged


def _facts(run: FederatedRun, traffic: str) -> list[tuple[str, Any]]:
    """What the engine itself cost."""
    model, n = run.plan.model, len(run.common.objective.clients)
    facts: list[tuple[str, Any]] = [
        ("path", run.plan.path),
        ("seconds to join, to prepare, to train", f"{run.joining:.2f}, {run.preparing:.2f}, {run.training:.2f}"),
        ("frames counted", f"{human_bytes(n * model.bytes_up_)} up, {human_bytes(n * model.bytes_down_)} down"),
    ]
    if run.validating.up:
        facts.append(("about held-out rows, 8 bytes a number", _sum([run.validating])))
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
