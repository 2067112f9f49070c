"""A process that stays on a node while a run lasts, for the path of messages: Flower starts a new process for every
message, and this one has the rows, the memory and the journal.

It listens on the loopback interface, on a port and with a key that are in the node's own folder, and ends with the run, or
when nobody has asked for an hour.
"""

from __future__ import annotations

import json
import os
import sys
from multiprocessing.connection import Listener
from pathlib import Path
from threading import Timer

from errorfeedback.clients.exactly_once import ExactlyOnce
from errorfeedback.federated.asking import ASSIGNMENT, DOOR
from errorfeedback.federated.site import Site
from errorfeedback.storage.files import read, replace_file
from errorfeedback.storage.journal import Journal

JOURNAL = "journal.ef"
IDLE = 3600.0


def keep(state: Path, data: Path) -> None:
    """Answer requests until the run is over."""
    site = Site(read(state / ASSIGNMENT), data)
    place = ExactlyOnce(site, Journal(state / JOURNAL))
    key = os.urandom(32)
    with Listener(("127.0.0.1", 0), authkey=key) as door:
        replace_file(state / DOOR, json.dumps([door.address[1], key.hex()]).encode())
        while not site.ended:
            alarm = Timer(IDLE, os._exit, [0])
            alarm.daemon = True
            alarm.start()
            with door.accept() as visitor:
                alarm.cancel()
                visitor.send_bytes(place.serve(visitor.recv_bytes()))
    for name in (JOURNAL, DOOR, ASSIGNMENT):
        (state / name).unlink()


if __name__ == "__main__":
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
