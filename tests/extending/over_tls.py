"""Clients on nodes that call a server over TLS. Here nodes are threads; elsewhere they are processes behind firewalls."""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Thread

import errorfeedback as ef


def live(packed, rows, folder):
    """A node's whole life: it has an invitation, its own rows, and a folder for its journal."""
    try:
        ef.join(ef.Invitation.unpack(packed), ef.OwnRows(rows), Path(folder))
    except ef.NotInvitedError as error:
        logging.getLogger(__name__).warning("%s", error)


def train(parts, folder, **options):
    """What `ef.solve` makes of these options, where every part's rows stay on a node."""
    with ef.Listener({name: range(rows.n) for name, rows in parts.items()}) as listener:
        given = [(listener.invitation(name).pack(), rows, folder) for name, rows in parts.items()]
        nodes = [Thread(target=live, args=each) for each in given]
        for node in nodes:
            node.start()
        transport = listener.transport()
        problem, _ = ef.gathered(transport, len(parts))
        result = ef.solve(problem, **options, engine=ef.Elsewhere(transport), metrics=False)
    for node in nodes:
        node.join()
    return result
