"""All that the server's later rounds depend on, beside the books, the rows and the stopping rules' memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from errorfeedback.core import Model, PerClient
from errorfeedback.downlinks.base import Broadcast
from errorfeedback.probes.losses import KnownLosses
from errorfeedback.stepsizes.base import Move, Verdict


@dataclass
class State:
    """x, and the memory of every part of the server."""

    x: Model
    method: Any
    direction: Any
    rule: Any
    downlink: Any
    broadcast: Broadcast | None
    """What the clients are about to hear."""
    verdict: Verdict = Verdict.GO
    """What they are about to do."""
    move: Move | None = None
    """The step that led here."""
    kept: tuple[Model, Any, Any] | None = None
    """The point that was kept: x, and the memory of method and downlink there (`runtime.guard`)."""
    losses: KnownLosses | None = None
    """What the clients told there, or were believed to have."""
    gradient: Model | None = None
    """The estimate at the last accepted point, with the penalty where the direction adds it; for rules that search."""
    aim: Model | None = None
    """The direction from there."""
    first: float | None = None
    """The loss at the start."""
    gained: float | None = None
    """How far it has fallen to the last accepted point."""
    missing: PerClient | None = None
    """The root mean square of what is missing from every client's Hessian estimate, as it was last told; nan: never."""
