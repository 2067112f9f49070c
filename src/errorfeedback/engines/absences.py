"""Rounds that some hosts miss. Who has not answered by the deadline took no part in the round:

    c_i = 0,  g_i stays,  g = (1/n) sum_i g_i over all n clients

as with `ef.Participating`, but by the clock and not by a coin. What a client of EF21 remembers is the sum of its messages,
so that the server knows every g_i bit for bit. A host that was away is told, before its next round, where x is and what its
g_i are (`recall`): what it did in a round that was not counted is undone, and a late answer has no effect. So a run with
absences is, bit for bit, the run of Algorithm 1 in which these clients sent nothing in these rounds.

A host that is away for longer than the transport's patience has left: its last message is -g_i, and the run goes on with
(1/n) sum_{i who stayed} f_i, which has the minimiser of those who stayed. When it comes back its clients are added again,
from g_i = 0. Everybody is waited for before round 1: nobody can be away who was never there.

An answer that is no message of these clients (damaged, too long, not finite) counts as none.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import numpy as np

from errorfeedback.clients.order import Setup
from errorfeedback.core import Lifted, Round
from errorfeedback.probes.base import Probes
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.frames import Frames
from errorfeedback.wire.message import NOWHERE, Message

LOG = logging.getLogger("errorfeedback")


def check_absences(setup: Setup, probes: Probes) -> None:
    """Raise where a round that a client misses has no meaning."""
    fix = "let the transport have no deadline"
    if not setup.method.mirrors:
        raise ValueError(
            f"a deadline lets clients miss rounds, and what {setup.method} makes of that depends on more than was sent; "
            f"use ef.EF21, or {fix}"
        )
    if probes or setup.commands or setup.curvature is not None:
        raise ValueError(
            f"a deadline lets clients miss rounds, and this run asks every client for {_named(probes)} to decide by; use a "
            f"step size that asks for nothing (ef.RareFeatures(), ef.Constant(gamma)), or {fix}"
        )


def _named(probes: Probes) -> str:
    return ", ".join(type(probe).__name__.lower() for probe in probes) or "more than its message"


@dataclass
class Absence:
    """Of one host."""

    first: int
    """The first round that it missed."""
    since: float
    left: bool = False


class Absences:
    """Who is away, and what everybody remembers. `patience`: seconds after which a host that is away has left."""

    def __init__(self, setup: Setup, supports: Sequence[Support], names: Sequence[str], dtype: Any, patience: float) -> None:
        self.method, self.supports, self.names, self.patience = setup.method, supports, names, patience
        self.memories = [Lifted(np.zeros(support.size, dtype=dtype)) for support in supports]
        """g_i of every host's clients."""
        self.away: dict[int, Absence] = {}
        self._notes: list[str] = []

    def heard(self, k: int, message: Message, ctx: Round) -> Message:
        """A host took part."""
        self.memories[k] = self.method.mirrored(self.memories[k], message, ctx)
        return message

    def missed(self, k: int, known: Frames, ctx: Round, why: str) -> Message:
        """A host took no part; what counts as its message."""
        asked = k not in self.away
        absence = self.away.setdefault(k, Absence(ctx.t, monotonic()))
        if asked:
            LOG.warning("%s takes no part in round %d: %s", self.names[k], ctx.t, why)
        nothing = np.zeros_like(known.counts)
        informed = np.full(len(nothing), asked)  # where x is, or not even that
        answers = informed if known.answers is None else known.answers & informed
        frames = replace(known, counts=nothing, index_bits=nothing, answers=answers, announced=True)
        if absence.left or monotonic() - absence.since <= self.patience:
            return Message(self.supports[k], NOWHERE, self.memories[k][:0], frames)
        return self._retired(k, absence, frames, ctx)

    def _retired(self, k: int, absence: Absence, frames: Frames, ctx: Round) -> Message:
        absence.left = True
        self._note(f"{self._clients(k)} left in round {ctx.t}, not heard of since round {absence.first}")
        last = Lifted(-self.memories[k])
        self.memories[k] = Lifted(np.zeros_like(last))
        return Message(self.supports[k], None, last, frames)

    def returned(self, k: int, t: int) -> None:
        """A host is where the server is, from round t on."""
        absence = self.away.pop(k)
        if absence.left:
            self._note(f"{self._clients(k)} came back in round {t}, from g_i = 0")
        else:
            self._note(f"{self._clients(k)} took no part in rounds {absence.first} to {t - 1}")

    def present(self, messages: list[Message]) -> None:
        """Where some are away, the others say that they are there: the books tell them apart."""
        if self.away:
            for message in messages:
                if message.frames.answers is None:
                    message.frames = replace(message.frames, answers=np.ones(message.support.n, dtype=bool))

    @property
    def notes(self) -> tuple[str, ...]:
        """Who was away, and from when to when."""
        still = [f"{self._clients(k)} took no part from round {each.first} on" for k, each in self.away.items()]
        return (*self._notes, *still)

    def _clients(self, k: int) -> str:
        first, n = self.supports[k].first, self.supports[k].n
        return f"{self.names[k]} (clients {first} to {first + n - 1})"

    def _note(self, text: str) -> None:
        LOG.warning("%s", text)
        self._notes.append(text)
