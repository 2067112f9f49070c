"""What the server says to the clients: before round 0, and in every round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from errorfeedback.core import Model, Round
from errorfeedback.directions.base import Asking
from errorfeedback.downlinks.base import Broadcast, Downlink
from errorfeedback.methods.base import Method
from errorfeedback.probes.base import Probes
from errorfeedback.probes.losses import KnownLosses
from errorfeedback.stepsizes.base import Verdict


@dataclass(frozen=True, eq=False)
class Setup:
    """What clients and server know of a run before round 0.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=4, d=6, m=3, c=2)
    >>> setup = ef.Setup(ef.EF21(ef.TopK(1), start="compressed"), ef.Whole(), problem.x0, commands=False)
    >>> session = ef.Local().open(problem, setup)  # what `solve` does, with any engine
    >>> [message.frames.counts.tolist() for message in session.round(Order(Round(0, 0), setup.x, None))]
    [[1, 1, 1, 1]]
    """

    method: Method
    """Which says what clients send."""
    downlink: Downlink
    """How x reaches them."""
    x: Model
    """(d,): the first x."""
    commands: bool
    """Clients are told in every round what to do with their memory."""
    curvature: Asking | None = None
    """How clients tell what is missing from their Hessian estimates, where the server may ask for it."""


Place: TypeAlias = tuple[Model, Any]
"""A point, and the memory of the downlink there."""


@dataclass(frozen=True, eq=False)
class Kept:
    """The point that a rule kept, for who has to be brought there or is not there."""

    place: Place
    losses: KnownLosses | None


@dataclass(slots=True, eq=False)
class Order:
    """What the server says in a round. Engines within one process hand out `x`, others send `broadcast`: it leads there."""

    ctx: Round
    x: Model
    broadcast: Broadcast | None
    """None: nobody has moved, or everybody goes back to the point that was kept."""
    probes: Probes = ()
    verdict: Verdict = Verdict.GO
    """What is to be done first with the memory that the last round left."""
    curvature: bool = False
    """Clients also send what is missing from their Hessian estimates."""
    finely: bool = False
    """In more digits than usual."""
    downlink: Any = None
    """The memory of the downlink at x, for who has to be brought there."""
    kept: Kept | None = None
    """The point that the clients' memory may go back to."""
