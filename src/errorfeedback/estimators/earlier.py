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


def fitting(last: PerColumn | None, width: int) -> PerColumn | None:
    """The model to go on from, refused where the new one has other numbers."""
    if last is not None and last.size != width:
        raise ValueError(
            f"warm_start: the last model has {last.size} numbers, the new one {width}; "
            "features and classes must be the same, or set warm_start=False"
        )
    return last
