"""`errorfeedback train DATA --out run/`: real data in, model out, no step size to choose."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from errorfeedback.cli._data import MODEL, budget_of, clear_errors, engine_of, reading_of
from errorfeedback.cli._inputs import estimator_of, rows_of
from errorfeedback.cli._progress import one_run
from errorfeedback.cli.verbs._inputs import Inputs
from errorfeedback.data.read import read
from errorfeedback.data.rows import Data
from errorfeedback.estimators.base import LinearEF21
from errorfeedback.estimators.model_file import save
from errorfeedback.planner.units import human_seconds
from errorfeedback.records.checkpoint import Checkpoint, Folder
from errorfeedback.records.network import Links, elapsed
from errorfeedback.report.training import Traces, training_page
from errorfeedback.runtime.agreement import agree

HEAVIEST = 30
"""Weights in the report."""
SECONDS = 60.0
"""Between checkpoints."""


def train(
    inputs: Inputs,
    *,
    out: Path,
    valid: str | None,
    k: int,
    budget: str,
    rounds: int,
    network: list[str] | None,
    tolerance: float,
    quiet: bool,
    engine: str,
    checkpoint: Path | None,
) -> None:
    """Train a linear model across clients; write the model, the history and a report."""
    with clear_errors():
        on = engine_of(engine)
        links = Links.parse(network) if network else None
        model = estimator_of(inputs, k=k, rounds=rounds, tolerance=tolerance, budget=budget_of(budget))
        with on.together.guard():
            agree(on.together, lambda: {"the command": shlex.join(sys.argv[1:])})
            if checkpoint is not None and on.leads:
                with Folder(checkpoint).held():
                    pass  # before anything is read
            found = rows_of(inputs, on.together)
            assert found.y is not None, "data without a target is refused"
            held = None if valid is None else read(valid, reading_of(inputs).later, encoding=found.encoding)
            told = on.together.all((found.A.shape[0], np.unique(np.asarray(found.clients))))
            rows, names = sum(each for each, _ in told), np.concatenate([each for _, each in told])
            if links is not None:
                links.of(names.tolist())  # every client has one
            with one_run(rounds, on.leads and not quiet) as at:
                model.fit(
                    found.A,
                    found.y,
                    groups=found.clients,
                    watch=_view(at, len(names)),
                    valid=_held(held),
                    engine=on,
                    checkpoint=None if checkpoint is None else Checkpoint(checkpoint, seconds=SECONDS),
                )
    if on.leads:
        _write(out, model, found, rows, inputs.target, links)


def _held(held: Data | None) -> tuple[Any, Any] | None:
    if held is None:
        return None
    if held.y is None:
        raise ValueError(f"{held.name} has no target; validation data needs one")
    return held.A, held.y


def _view(at: Callable[[int, str], None], n: int) -> Callable[[dict[str, float]], None]:
    """Follows the run."""

    def show(row: dict[str, float]) -> None:
        words = f"loss {row['f']:.6g}, step {row['gamma']:.4g}, {row['uplink_bits'] / 8 / n:,.0f} bytes up per client"
        if "validation" in row:
            words += f", validation loss {row['validation']:.4f}"
        at(int(row["round"]), words)

    return show


def _write(out: Path, model: LinearEF21, data: Data, rows: int, target: str | None, links: Links | None) -> None:
    label, n = "EF21, automatic step", len(model.clients_)
    wire = {} if links is None else {label: elapsed(model.history_, *model.traffic_, links.of(model.clients_.tolist()))}
    command = shlex.join(["errorfeedback", *sys.argv[1:]])
    facts: list[tuple[str, Any]] = [
        ("data", data.name),
        ("rows", rows),
        ("features", data.A.shape[1]),
        ("clients", n),
        ("loss", model.loss_),
        ("rounds", model.n_iter_),
        ("stopped because", model.stopped_),
        ("the model is", model.returned_),
        ("bytes up per client", round(model.bytes_up_)),
        ("bytes down per client", round(model.bytes_down_)),
    ]
    if links is not None:
        facts += [("network", str(links)), ("time on the network", human_seconds(float(wire[label][-1])))]
    if isfinite(model.validation_loss_):
        facts += [("validation loss", model.validation_loss_)]
    provenance = {**dict(facts), "target": target, "parameters": model.get_params(), "command": command}
    out.mkdir(parents=True, exist_ok=True)
    written = [save(out / MODEL, model, data.encoding, provenance)]
    written.append(out / "history.json")
    written[-1].write_text(json.dumps({name: column.tolist() for name, column in model.history_.items()}), encoding="utf-8")
    traces = Traces({label: model.history_}, n, str(links or ""), wire)
    page = training_page(f"Trained on {data.name}", facts, traces, _heaviest(model, data), command)
    written += page.write_where_possible(out / "report.html")
    console = Console()
    for name, value in facts:
        console.print(f"{name}: {value}", soft_wrap=True, highlight=False, markup=False)
    for path in written:
        console.print(f"Written: {path}", soft_wrap=True, highlight=False, markup=False)


def _heaviest(model: LinearEF21, data: Data) -> list[tuple[str, float]]:
    weights = np.abs(np.atleast_2d(model.coef_)).max(axis=0)
    names, first = data.encoding.names, np.atleast_2d(model.coef_)
    order = np.argsort(-weights, kind="stable")[:HEAVIEST]
    return [(names[j], float(first[np.abs(first[:, j]).argmax(), j])) for j in order]
