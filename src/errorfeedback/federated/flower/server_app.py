"""The ServerApp: it waits for its nodes, has them train over one of the two paths, and hands over what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from errorfeedback.data.read import read_held_out
from errorfeedback.data.rows import Data
from errorfeedback.engines.allow_list import AllowList
from errorfeedback.engines.base import Transport
from errorfeedback.engines.stream import Listener
from errorfeedback.federated.federated_plan import MESSAGES, STREAM, FederatedPlan, FederatedRun
from errorfeedback.federated.flower.inviting import inviting
from errorfeedback.federated.flower.messages import Messages
from errorfeedback.federated.nodes import Nodes
from errorfeedback.federated.site import Common
from errorfeedback.federated.traffic import Crossed
from errorfeedback.storage.checkpoint import Checkpoint
from errorfeedback.storage.files import content

Way = tuple[Transport, Callable[[], list[Crossed] | None]]
"""To the nodes, and what has crossed on it so far, where it is known."""
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
    numbers = _present(plan, grid)
    with PATHS[plan.path](plan, grid, numbers) as (transport, crossed):
        nodes, joined = Nodes(transport, len(numbers)), time.monotonic()
        common = nodes.gather(named=plan.named, share=plan.assignment.share)
        held = _held(plan, common)
        prepared, before = time.monotonic(), crossed()
        checkpoint = None if plan.checkpoint is None else Checkpoint(plan.checkpoint, seconds=plan.checkpoint_seconds)
        valid = nodes.held if held is None else (held.A, np.asarray(held.y), held.weights)
        plan.model.fit_elsewhere(common.objective, common.learned, nodes, valid=valid, checkpoint=checkpoint)
        nodes.dismiss()
    times = joined - began, prepared - joined, time.monotonic() - prepared
    return FederatedRun(plan, common, nodes.judgements, held, nodes.validating, before, crossed(), *times)


def _held(plan: FederatedPlan, common: Common) -> Data | None:
    """The held-out rows that the server has, read as the nodes read theirs."""
    return None if plan.valid is None else read_held_out(plan.valid, plan.assignment.reading, common.encoding)


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
def _messages(plan: FederatedPlan, grid: Grid, numbers: list[int]) -> Iterator[Way]:
    yield Messages(grid, numbers, AllowList(plan.nodes), content(plan.assignment)), lambda: None


@contextmanager
def _stream(plan: FederatedPlan, grid: Grid, numbers: list[int]) -> Iterator[Way]:
    folder = None if plan.checkpoint is None else plan.checkpoint / "listener"
    listening = Listener(
        plan.nodes, host=plan.host, port=plan.port, folder=folder, patience=plan.patience, deadline=plan.deadline
    )
    with listening as listener, inviting(listener, grid, numbers, content(plan.assignment)):
        yield listener.transport(), lambda: [Crossed(up, down) for down, up in listener.traffic().values()]


PATHS: dict[str, Callable[[FederatedPlan, Grid, list[int]], AbstractContextManager[Way]]] = {
    STREAM: _stream,
    MESSAGES: _messages,
}
"""How requests reach the nodes."""
