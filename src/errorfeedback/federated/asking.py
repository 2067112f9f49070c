"""Hand a request to the process that keeps a node (`federated.keeper`), and start it where there is none.

Flower starts a process for every message, and all that it does is this: so nothing is imported here that is not needed.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from multiprocessing.connection import Client
from pathlib import Path

KEEPER = "errorfeedback.federated.keeper"
DOOR, ASSIGNMENT = "keeper.json", "assignment.ef"
PATIENCE = 120.0
"""Seconds that a keeper may take to come up, and to replay its journal."""


def ask(state: Path, data: Path, assignment: bytes, request: bytes) -> bytes:
    """The answer of the node's keeper of this assignment, which is started where there is none."""
    state = state / hashlib.sha256(assignment).hexdigest()[:16]
    answer = _asked(state, request)
    if answer is not None:
        return answer
    state.mkdir(parents=True, exist_ok=True, mode=0o700)
    (state / DOOR).unlink(missing_ok=True)
    (state / ASSIGNMENT).write_bytes(assignment)
    words = [sys.executable, "-m", KEEPER, str(state), str(data)]
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
        port, key = json.loads((state / DOOR).read_bytes())
        with Client(("127.0.0.1", port), authkey=bytes.fromhex(key)) as keeper:
            keeper.send_bytes(request)
            return keeper.recv_bytes()
    except (OSError, EOFError):
        return None
