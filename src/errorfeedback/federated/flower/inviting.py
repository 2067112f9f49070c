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
def inviting(listener: Listener, grid: Grid, numbers: list[int], assignment: bytes) -> Iterator[None]:
    """While this lasts, nodes (by their numbers, in the listener's order) are invited until they are there."""
    over = Event()

    def watch() -> None:
        due = dict.fromkeys(numbers, monotonic())
        while True:
            for number, member in zip(numbers, listener.members, strict=True):
                if member.link is not None:
                    due[number] = monotonic() + AWAY
                elif monotonic() >= due[number]:
                    due[number] = monotonic() + AWAY
                    _invite(grid, number, listener.invitation(member.name).pack(), assignment)
            if over.wait(POLL):
                return

    inviter = Thread(target=watch, daemon=True)
    inviter.start()
    try:
        yield
    finally:
        over.set()
        inviter.join()


def _invite(grid: Grid, number: int, invitation: bytes, assignment: bytes) -> None:
    try:
        grid.push_messages([message_to(number, TRAIN, {"assignment": assignment, "invitation": invitation})])
    except Exception as error:  # the SuperLink may be away for a while, and the stream does without it
        LOG.warning("node %d cannot be invited now: %s", number, error)
