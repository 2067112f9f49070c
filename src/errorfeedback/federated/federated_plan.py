"""What a server of nodes is to do, and what came of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from errorfeedback.data.rows import Data
from errorfeedback.engines.allow_list import AllowList
from errorfeedback.estimators.base import LinearEF21
from errorfeedback.federated.assignment import Assignment
from errorfeedback.federated.site import Common, Judgement
from errorfeedback.federated.traffic import Crossed

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
    nodes: dict[str, Sequence[Any]]
    """By their names at the SuperLink, which clients each may speak for (`engines.allow_list`), in the order in which they
    are counted."""
    valid: str | None = None
    """A file of the server's with held-out rows; a share that nodes hold out is in the assignment."""
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
        AllowList(self.nodes)
        for name in ("patience", "checkpoint_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} = {getattr(self, name):g}; it must be above 0 seconds")
        if self.deadline is not None and self.path != STREAM:
            raise ValueError(f"deadline = {self.deadline:g}, but messages are waited for; use path = {STREAM!r}")
        if self.deadline is not None and self.assignment.share is not None:
            raise ValueError(
                f"deadline = {self.deadline:g}, but a node that is away cannot say how good the model is on the rows "
                "that it holds out; give valid a file of the server's, or leave one of the two out"
            )
        if self.wait is not None and self.assignment.share is not None:
            raise ValueError(f"wait = {self.wait:g}, but who joins late changes which rows are held out; give valid a file")
        if self.wait is not None and (self.path != STREAM or self.checkpoint is not None):
            raise ValueError(
                f"wait = {self.wait:g}: a run that nodes may join late goes over path = {STREAM!r}, and has no checkpoint, "
                "which is of the clients that it began with"
            )

    @property
    def named(self) -> bool:
        """Whether clients have names: of a column, or because the server knows them by name."""
        counted = all(isinstance(allowed, range) for allowed in self.nodes.values())
        return not counted or self.assignment.reading.client_column is not None


@dataclass(frozen=True, eq=False)
class FederatedRun:
    """A model that nodes have trained."""

    plan: FederatedPlan
    common: Common
    judgements: dict[str, Judgement]
    """Of every node that was there at the end."""
    held: Data | None
    """The held-out rows, where they are the server's."""
    validating: Crossed
    """What was said about those of the nodes, as packed arrays."""
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
