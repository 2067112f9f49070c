"""A training in parts: what the next one takes over from a run with other clients."""

from __future__ import annotations

from dataclasses import dataclass

from errorfeedback.core import PerColumn
from errorfeedback.storage.history import History


@dataclass(frozen=True, eq=False)
class Earlier:
    """A run that another one goes on from."""

    start: PerColumn | None
    """Where that one begins: an entry for each of its columns; None: at 0."""
    history: History
    rounds: int
    """All of its rounds, round 0 too."""
    bytes_up: float
    """Of a client that was in it, on average."""
    bytes_down: float
