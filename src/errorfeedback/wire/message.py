"""Messages between the clients of a shard and the server, before they are put on the wire (`wire.codec`)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import Floats, Integers, Lifted, Model
from errorfeedback.sparsity.support import Support, add_at, add_through
from errorfeedback.wire.coding import FULL, NO_UNITS
from errorfeedback.wire.frames import Frames, bits_per_index, self_counted


@dataclass(frozen=True, slots=True)
class Presence:
    """Whether the clients of a shard took part in a round (`engines.absences`)."""

    there: bool = True
    """False: nothing has come from them."""
    informed: bool = True
    """They were told where x is."""
    back: bool = False
    """They told nothing where the point was kept: their message is not what a step from there has changed alone."""
    left: bool = False
    """They will not come back."""
    surprise: float = 0.0
    """By how much the sum of their losses at that point counts higher than was believed."""

    @property
    def compares(self) -> bool:
        """They told here and where the point was kept."""
        return self.there and not self.back


PRESENT = Presence()


@dataclass(slots=True, eq=False)
class Message:
    """What the clients of a shard send or get in a round: values at positions of the lifted space, in client order.

    A message may share its arrays with the operator that made it; it is valid until the operator's next call.
    """

    support: Support
    """Of the clients that it is about."""
    positions: Integers | None
    """None: every position, so no index crosses the wire."""
    values: Floats
    """One per position."""
    frames: Frames
    """How the values are put on the wire."""
    units: Floats = field(default_factory=lambda: NO_UNITS)
    """The unit of every block of values, where they are counted in one (`wire.coding`)."""
    telemetry: Floats | None = None
    """(n, numbers): what else the clients were asked for."""
    curvature: Message | None = None
    """What was missing from the clients' Hessian estimates, over pairs of features, where the server asked for it."""
    presence: Presence = PRESENT

    def scatter(self, total: Model, fresh: bool, n: int) -> None:
        """total += P' message, one value after the other; from 0 where it is `fresh`; divided by n at the end unless 0."""
        if self.positions is not None:
            add_through(total, self.support.indices, self.positions, self.values, fresh, n)
            return
        if fresh:
            total.fill(0.0)
        self.support.add_up(Lifted(self.values), total)
        if n:
            total /= n

    def add_to(self, u: Lifted) -> Lifted:
        """u + message, in place."""
        if self.positions is None:
            u += self.values
        else:
            add_at(u, self.positions, self.values)
        return u

    def take_from(self, u: Lifted) -> Lifted:
        """u - message, in place."""
        if self.positions is None:
            u -= self.values
        else:
            u[self.positions] -= self.values
        return u

    def lifted(self) -> Lifted:
        """The message as a lifted vector."""
        return self.add_to(Lifted(np.zeros(self.support.size, dtype=self.values.dtype)))

    def only(self, clients: NDArray[np.bool_]) -> Message:
        """The same without what the other clients say; every frame says how much is in it."""
        frames, positions = self.frames, np.arange(self.support.size) if self.positions is None else self.positions
        kept, units = np.repeat(clients, frames.counts), np.repeat(clients, frames.units)
        left = self_counted(frames.counts * clients, self.support.sizes, frames.coding)
        return Message(self.support, positions[kept], self.values[kept], left, self.units[units])


def nonzeros(support: Support, u: Lifted) -> Message:
    """The entries of u that are not zero, with their indices; all of a client's, without, where that is shorter."""
    sizes, width, chosen = support.sizes, 8 * u.dtype.itemsize, u != 0
    counts = np.add.reduceat(chosen, support.indptr[:-1], dtype=np.int64)
    counts = np.where(counts * (width + bits_per_index(sizes)) < sizes * width, counts, sizes)
    positions = np.flatnonzero(chosen | np.repeat(counts == sizes, sizes))
    return Message(support, positions, u[positions], self_counted(counts, sizes, FULL))


NOWHERE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class KnownLayout:
    """What both sides know of a message before it is sent."""

    frames: Frames
    positions: Integers | None = field(default_factory=lambda: NOWHERE)
    """Positions that are sent for sure, so that no index has to say so; None: every position."""
