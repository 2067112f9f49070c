"""Invitations to a stream, inside Flower's authenticated messages: one to every node, and another to a node that has been
away for a while, for a message to a node that died is never delivered again. Who is there already refuses the second."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic

from flwr.serverapp import Grid

from errorfeedback.engines.stream import Listener
from errorfeedback.federated.flower.records import TRAIN, message_to

LOG = logging.getLogger("errorfeedback")
AWAY = 20.0
"""Seconds without a connection before a node is invited again."""
POLL = 1.0


@contextmanager
def inviting(listener: Listener, grid: Grid, assignment: bytes) -> Iterator[None]:
    """While this lasts, the listener's nodes are invited as soon as the SuperLink knows them, until they are there."""
    over = Event()

    def watch() -> None:
        due = dict.fromkeys((member.name for member in listener.members), monotonic())
        while True:
            due |= {member.name: monotonic() + AWAY for member in listener.members if member.link is not None}
            wanted = [name for name, when in due.items() if monotonic() >= when]
            for name in _invited(grid, {name: listener.invitation(name).pack() for name in wanted}, assignment):
                due[name] = monotonic() + AWAY
            if over.wait(POLL):
                return

    inviter = Thread(target=watch, daemon=True)
    inviter.start()
    try:
        yield
    finally:
        over.set()
        inviter.join()


def _invited(grid: Grid, invitations: dict[str, bytes], assignment: bytes) -> list[str]:
    """Who of them is there, and has been sent its invitation."""
    if not invitations:
        return []
    try:
        there = {node.name: node.node_id for node in grid.get_nodes() if node.name in invitations}
        fields = {number: {"assignment": assignment, "invitation": invitations[name]} for name, number in there.items()}
        grid.push_messages([message_to(number, TRAIN, each) for number, each in fields.items()])
    except Exception as error:  # the SuperLink may be away for a while, and the stream does without it
        LOG.warning("%s cannot be invited now: %s", ", ".join(invitations), error)
        return list(invitations)
    return list(there)
