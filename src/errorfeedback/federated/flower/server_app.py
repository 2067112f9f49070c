"""The ServerApp: it waits for its nodes, has them train over one of the two paths, and hands over what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from errorfeedback.data.read import read_held_out
from errorfeedback.data.rows import Data
from errorfeedback.engines.allow_list import AllowList
from errorfeedback.engines.stream import Listener
from errorfeedback.estimators.base import Held
from errorfeedback.estimators.held_out import HeldOut
from errorfeedback.federated.federated_plan import MESSAGES, STREAM, FederatedPlan, FederatedRun
from errorfeedback.federated.flower.inviting import inviting
from errorfeedback.federated.flower.messages import Messages
from errorfeedback.federated.late_nodes import fit_with
from errorfeedback.federated.nodes import Nodes
from errorfeedback.federated.site import Common
from errorfeedback.federated.traffic import Crossed
from errorfeedback.storage.checkpoint import Checkpoint
from errorfeedback.storage.files import content


@dataclass(frozen=True, eq=False)
class Way:
    """To the nodes of a plan."""

    seats: Callable[[], Nodes]
    """All who are there by now, and are to be in the run."""
    waiting: Callable[[], list[str]]
    """Who has come since."""
    crossed: Callable[[], list[Crossed] | None]
    """What has crossed so far, where it is known."""


POLL = 0.1


def server_app(
    plan_of: Callable[[Mapping[str, Any]], FederatedPlan], finish: Callable[[FederatedRun, Mapping[str, Any]], None]
) -> ServerApp:
    """An app that trains what `plan_of` makes of the run's configuration; `finish` gets the outcome."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        finish(carried_out(plan_of(context.run_config), grid), context.run_config)

    return app


def carried_out(plan: FederatedPlan, grid: Grid) -> FederatedRun:
    """Train with the nodes of the grid."""
    began = time.monotonic()
    with PATHS[plan.path](plan, grid) as way:
        nodes, joined = way.seats(), time.monotonic()
        common = nodes.gather()
        prepared, before = time.monotonic(), way.crossed()
        checkpoint = None if plan.checkpoint is None else Checkpoint(plan.checkpoint, seconds=plan.checkpoint_seconds)
        nodes, common = fit_with(
            plan.model, nodes, common, way.seats, way.waiting, lambda *last: _valid(plan, *last), checkpoint
        )
        nodes.dismiss()
    times = joined - began, prepared - joined, time.monotonic() - prepared
    return FederatedRun(plan, common, nodes.judged(), _held(plan, common), nodes.validating, before, way.crossed(), *times)


def _held(plan: FederatedPlan, common: Common) -> Data | None:
    """The held-out rows that the server has, read as the nodes read theirs."""
    return None if plan.valid is None else read_held_out(plan.valid, plan.assignment.reading, common.encoding)


def _valid(plan: FederatedPlan, nodes: Nodes, common: Common) -> Held | HeldOut | None:
    """The held-out rows, wherever they are."""
    held = _held(plan, common)
    return nodes.held if held is None else (held.A, np.asarray(held.y), held.weights)


def _present(plan: FederatedPlan, grid: Grid) -> list[int]:
    """The numbers of the plan's nodes, once all are there."""
    end = time.monotonic() + plan.patience
    while True:
        there = {node.name: node.node_id for node in grid.get_nodes()}
        absent = [name for name in plan.nodes if name not in there]
        if not absent:
            return [there[name] for name in plan.nodes]
        if time.monotonic() > end:
            raise TimeoutError(
                f"{', '.join(absent)} did not come within {plan.patience:g} seconds; is the SuperNode running?"
            )
        time.sleep(POLL)


@contextmanager
def _messages(plan: FederatedPlan, grid: Grid) -> Iterator[Way]:
    transport = Messages(grid, _present(plan, grid), AllowList(plan.nodes), content(plan.assignment))
    nodes = Nodes(transport, len(plan.nodes), plan.named, plan.assignment.share)
    yield Way(lambda: nodes, list, lambda: None)


@contextmanager
def _stream(plan: FederatedPlan, grid: Grid) -> Iterator[Way]:
    folder = None if plan.checkpoint is None else plan.checkpoint / "listener"
    listening = Listener(
        plan.nodes,
        host=plan.host,
        port=plan.port,
        folder=folder,
        patience=plan.patience,
        deadline=plan.deadline,
        quorum=plan.quorum,
        wait=plan.wait,
    )

    def seats() -> Nodes:
        transport = listening.transport()
        return Nodes(transport, len(transport.members), plan.named, plan.assignment.share)

    with listening as listener, inviting(listener, grid, content(plan.assignment)):
        yield Way(seats, listener.latecomers, lambda: [Crossed(up, down) for down, up in listener.traffic().values()])


PATHS: dict[str, Callable[[FederatedPlan, Grid], AbstractContextManager[Way]]] = {
    STREAM: _stream,
    MESSAGES: _messages,
}
"""How requests reach the nodes."""
