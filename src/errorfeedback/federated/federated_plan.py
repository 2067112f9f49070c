"""What a server of nodes is to do, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from errorfeedback.estimators.base import LinearEF21
from errorfeedback.federated.assignment import Assignment
from errorfeedback.federated.site import Common, Judgement

STREAM, MESSAGES = "stream", "messages"
PATIENCE = 600.0


@dataclass(frozen=True, eq=False)
class FederatedPlan:
    """The model to train and the nodes that have the rows.

    path: "stream" (a TLS connection of our own frames from every node to `host` and `port`, 0: any free one) or "messages"
    (all of it inside Flower's own, where nodes cannot reach that port). patience: seconds to wait for nodes.
    """

    model: LinearEF21
    assignment: Assignment
    nodes: dict[str, int]
    """By their names at the SuperLink, how many clients each may speak for; clients are counted in this order."""
    path: str = STREAM
    host: str = "127.0.0.1"
    port: int = 0
    patience: float = PATIENCE
    checkpoint: Path | None = None
    checkpoint_seconds: float = 60.0
    """Between two checkpoints."""
    deadline: float | None = None
    """Seconds that a node has for a round before it counts as absent; None: everybody is waited for. On the stream only."""
    quorum: int | None = None
    """Nodes that must be there to begin, and answer a round; None: more than half of them."""
    wait: float | None = None
    """Seconds after which the run begins without the nodes that are not there, if the quorum is; they may join it later.
    None: all are waited for. On the stream only, and without a checkpoint."""

    def __post_init__(self) -> None:
        if self.path not in (STREAM, MESSAGES):
            raise ValueError(f"path = {self.path!r}; it must be {STREAM!r} or {MESSAGES!r}")
        if not self.nodes or min(self.nodes.values()) < 1:
            raise ValueError(f"nodes = {self.nodes}; there must be a node, and every node must have a client")
        for name in ("patience", "checkpoint_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} = {getattr(self, name):g}; it must be above 0 seconds")
        if self.deadline is not None and self.path != STREAM:
            raise ValueError(f"deadline = {self.deadline:g}, but messages are waited for; use path = {STREAM!r}")
        if self.wait is not None and (self.path != STREAM or self.checkpoint is not None):
            raise ValueError(
                f"wait = {self.wait:g}: a run that nodes may join late goes over path = {STREAM!r}, and has no checkpoint, "
                "which is of the clients that it began with"
            )


@dataclass(frozen=True, eq=False)
class Crossed:
    """Bytes between a node and the server, as they were counted at the socket."""

    up: int
    down: int


@dataclass(frozen=True, eq=False)
class FederatedRun:
    """A model that nodes have trained."""

    plan: FederatedPlan
    common: Common
    judgements: dict[str, Judgement]
    """Of every node that was there at the end."""
    before: list[Crossed] | None
    """With every node, before round 0; None where nobody stands at the sockets."""
    crossed: list[Crossed] | None
    """In all."""
    joining: float
    """Seconds until all nodes were there."""
    preparing: float
    """Seconds of what nodes say to each other before round 0."""
    training: float
    """Seconds of all rounds."""
