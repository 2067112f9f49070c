"""A process that stays on a node while a run lasts, for the path of messages: Flower starts a new process for every
message, and this one has the rows, the memory and the journal.

It listens on the loopback interface, on a port and with a key that are in the node's own folder, and ends with the run, or
when nobody has asked for an hour.
"""

from __future__ import annotations

import hashlib
import os
import sys
import time
from multiprocessing.connection import Client, Listener
from pathlib import Path
from threading import Timer

from errorfeedback.clients.exactly_once import ExactlyOnce
from errorfeedback.federated.site import Site
from errorfeedback.storage.files import read, replace_file, write
from errorfeedback.storage.journal import Journal

DOOR, JOURNAL, ASSIGNMENT = "keeper.ef", "journal.ef", "assignment.ef"
IDLE = 3600.0
PATIENCE = 120.0
"""Seconds that a keeper may take to come up, and to replay its journal."""


def keep(state: Path, data: Path) -> None:
    """Answer requests until the run is over."""
    site = Site(read(state / ASSIGNMENT), data)
    place = ExactlyOnce(site, Journal(state / JOURNAL))
    key = os.urandom(32)
    with Listener(("127.0.0.1", 0), authkey=key) as door:
        write(state / DOOR, (door.address[1], key.hex()))
        while not site.ended:
            alarm = Timer(IDLE, os._exit, [0])
            alarm.daemon = True
            alarm.start()
            with door.accept() as visitor:
                alarm.cancel()
                visitor.send_bytes(place.serve(visitor.recv_bytes()))
    for name in (JOURNAL, DOOR, ASSIGNMENT):
        (state / name).unlink()


def ask(state: Path, data: Path, assignment: bytes, request: bytes) -> bytes:
    """The answer of the node's keeper of this assignment, which is started where there is none."""
    state = state / hashlib.sha256(assignment).hexdigest()[:16]
    answer = _asked(state, request)
    if answer is not None:
        return answer
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    (state / DOOR).unlink(missing_ok=True)
    replace_file(state / ASSIGNMENT, assignment)
    words = [sys.executable, "-m", __name__, str(state), str(data)]
    keeper = os.posix_spawn(sys.executable, words, os.environ)  # it outlives whoever starts it
    end = time.monotonic() + PATIENCE
    while not (state / DOOR).exists():
        if os.waitpid(keeper, os.WNOHANG)[0] or time.monotonic() > end:
            raise RuntimeError(f"the keeper of {state} did not come up within {PATIENCE:g} seconds; its output says why")
        time.sleep(0.02)
    answer = _asked(state, request)
    if answer is None:
        raise RuntimeError(f"the keeper of {state} is gone; its output says why")
    return answer


def _asked(state: Path, request: bytes) -> bytes | None:
    """None where nobody keeps the node."""
    try:
        port, key = read(state / DOOR)
        with Client(("127.0.0.1", port), authkey=bytes.fromhex(key)) as keeper:
            keeper.send_bytes(request)
            return keeper.recv_bytes()
    except (OSError, EOFError):
        return None


if __name__ == "__main__":
    keep(Path(sys.argv[1]), Path(sys.argv[2]))
