"""What a client counts as in a round that it misses: its remembered slope, and the mean curve of those who are there,

    f_i(x_kept + s) - f_i(x_kept) = <g_i, s> + r(s),
    r(s) = (1/|S|) sum_{i in S} (f_i(x_kept + s) - f_i(x_kept) - <g_i, s>),

S the clients that told their loss at both ends of the step s from the point that a rule kept. A probe that is a property of
the curve (a remaining slope, an error of g_i) is the mean of what those there have told. All clients together come to

    F~(x_kept + s) - F~(x_kept) = <g, s> + r(s) + R(x_kept + s) - R(x_kept),    g = (1/n) sum_i g_i over all n clients.

- *With nobody away it is F*, and what is told is what counts, bit for bit.
- *F~ never rises at points that Armijo's rule accepts*: a step is refused where it does, and where S is empty, so that
  nothing compares.
- *Some step is accepted*: F~ has a Lipschitz gradient where the f_i of S and R have, and at x_kept it is g + (1/|S|)
  sum_S (grad f_i - g_i), so that g is an estimate of it whose error is that of S. The argument of `stepsizes.armijo` holds
  word for word, with F~ in place of F. For the losses of S alone it would not: s need be no descent for who happens to be
  there. With r = 0 it would, but steps that curve for half of the clients look twice as good as they are, and f diverges.
- *Not promised*: that f itself falls while clients are away. When one is back its true loss takes the place of what was
  believed: what is recorded may jump there (`Presence.surprise`), and no step is blamed for it.

Clients that have left count as constants: r and y are in place of those who have not, and not of all n.

Pairs of quasi-Newton directions are those of F~ too, y = (1/|S|) sum_S of the changes of g_i (`Server`; Berahas, Nocedal
and Takac 2016, over the clients in place of samples).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from errorfeedback.clients.order import Kept, Order
from errorfeedback.core import Floats, Lifted, Model, PerClient
from errorfeedback.probes.base import column_of, widths_of
from errorfeedback.probes.losses import Losses
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import Message


def losses_at(order: Order, value_bits: int) -> int | None:
    """Where losses are among the numbers of a round; None where nothing compares with them."""
    return None if order.kept is None else column_of(order.probes, Losses, value_bits)


def was_away(support: Support, kept: Kept | None) -> bool:
    """Whether a host told nothing at the point that was kept."""
    return kept is not None and kept.losses is not None and not kept.losses.heard[support.first]


def guessed(g: Lifted, support: Support, x: Model, kept: Kept) -> PerClient:
    """f_i(x_kept) + <g_i, x - x_kept>."""
    assert kept.losses is not None, "a rule that asks for losses keeps them with its point"
    known = kept.losses.values[support.first :][: support.n]
    return PerClient(known + support.sums(Lifted(g * support.gather(Model(x - kept.place[0])))))


@dataclass(frozen=True, eq=False)
class Belief:
    """About one round that somebody misses, or missed where the point was kept."""

    means: Floats
    """(numbers,): of those there."""
    at: int | None
    """Where losses are among them."""
    guesses: Sequence[PerClient]
    """Of every host's losses, by their slopes alone."""
    rest: float
    """r(s)."""
    compares: bool
    """S is not empty, or nobody has moved."""

    @classmethod
    def of(
        cls,
        order: Order,
        supports: Sequence[Support],
        memories: Sequence[Lifted],
        there: Mapping[int, Message],
        value_bits: int,
    ) -> Belief:
        """`memories`: g_i of every host, before the round; `there`: what those said who are."""
        at = losses_at(order, value_bits)
        spoken = [message.telemetry for message in there.values() if message.telemetry is not None]
        means = np.concatenate(spoken).mean(axis=0) if spoken else np.zeros(len(widths_of(order.probes, value_bits)))
        if at is None or order.kept is None:
            return cls(means, None, [], 0.0, compares=True)
        guesses = [guessed(g, support, order.x, order.kept) for g, support in zip(memories, supports, strict=True)]
        rests = [
            message.telemetry[:, at] - guesses[k]
            for k, message in there.items()
            if message.telemetry is not None and not was_away(supports[k], order.kept)
        ]
        rest = float(np.concatenate(rests).mean()) if rests else 0.0
        return cls(means, at, guesses, rest, compares=bool(rests) or order.broadcast is None)

    def numbers(self, k: int, n: int, rest: float) -> Floats | None:
        """What a host that is away counts as having told, where its losses change by `rest` beside their slopes."""
        if not len(self.means):
            return None
        numbers = np.tile(self.means, (n, 1))
        if self.at is not None:
            numbers[:, self.at] = self.guesses[k] + rest
        return numbers

    def surprise(self, k: int, message: Message) -> float:
        """By how much the losses of a host that is back are above what they would count as; 0 where the step was too long
        for it."""
        if self.at is None or message.telemetry is None:
            return 0.0
        surprise = float((message.telemetry[:, self.at] - self.guesses[k] - self.rest).sum())
        return surprise if np.isfinite(surprise) else 0.0

    @property
    def incomparable(self) -> float:
        """What the surprise is beside that of who is back."""
        return 0.0 if self.compares else -inf
