"""Rounds that some hosts miss. Who has not answered by the deadline took no part in the round:

    c_i = 0,  g_i stays,  g = (1/n) sum_i g_i over all n clients

as with `ef.Participating`, but by the clock and not by a coin. What a client of EF21 remembers is the sum of its messages,
so that the server knows every g_i bit for bit; so it does the g_i that were kept, and the Hessian estimates, which stay too.
What rules that ask for losses and slopes take an absent client for is in `engines.believing`.

A host that was away is told, before its next round, where x is, which point was kept, and what it remembers at both
(`recall`): what it did in a round that was not counted is undone, and a late answer has no effect. So a run with absences
does not depend on what the absent did.

A host that is away for longer than the transport's patience has left: its last message is -g_i, and the run goes on with
(1/n) sum_{i who stayed} f_i, which has the minimiser of those who stayed (what the others are believed to lose stays in what
is recorded). When it comes back its clients are added again, from g_i = 0. Everybody is waited for in round 0: nobody can be
away who was never there.

An answer that is no message of these clients (damaged, too long, not finite) counts as none; but numbers that are not
finite at the end of a step, where a rule compares losses and can undo it, are a loss of infinity: the step was too long.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from time import monotonic
from typing import Any

import numpy as np

from errorfeedback.clients.bending import nothing_told
from errorfeedback.clients.memory import joined_memory
from errorfeedback.clients.order import Kept, Order, Setup
from errorfeedback.core import Lifted, Model, PerClient, Round, RowMemory
from errorfeedback.engines.believing import Belief, guessed, losses_at, was_away
from errorfeedback.methods.base import Method
from errorfeedback.probes.base import Probes
from errorfeedback.probes.losses import Losses
from errorfeedback.sparsity.support import Support
from errorfeedback.stepsizes.base import Verdict
from errorfeedback.wire.frames import Frames
from errorfeedback.wire.message import NOWHERE, Message, Presence

LOG = logging.getLogger("errorfeedback")


def check_absences(setup: Setup, probes: Probes) -> None:
    """Raise where a round that a client misses has no meaning."""
    fix = "let the transport have no deadline"
    if not setup.method.mirrors:
        raise ValueError(
            f"a deadline lets clients miss rounds, and what {setup.method} makes of that depends on more than was sent; "
            f"use ef.EF21, or {fix}"
        )
    needed = [type(probe).__name__.lower() for probe in probes if not probe.spares_absent]
    if not setup.commands:  # nobody keeps a point to compare with
        needed += [type(probe).__name__.lower() for probe in probes if isinstance(probe, Losses)]
    if needed:
        raise ValueError(
            f"a deadline lets clients miss rounds, and this run asks every client for {', '.join(needed)} to decide by; use "
            f"a step size that can do without (ef.Armijo(), ef.Automatic(), ef.RareFeatures(), ef.Constant(gamma)), or {fix}"
        )


@dataclass
class Absence:
    """Of one host."""

    first: int
    """The first round that it missed."""
    since: float
    left: bool = False


@dataclass
class Remembered:
    """What a host's clients remember, as far as the server knows: all of it."""

    g: Lifted
    kept: Lifted | None
    """g_i at the point that was kept."""
    notes: dict[str, Any]
    """Of the probes."""
    hessians: RowMemory | None
    """Their Hessian estimates; empty where nobody has asked, None where nobody will."""

    def obey(self, verdict: Verdict) -> None:
        """What clients do with a verdict (`clients.shard`)."""
        if verdict is Verdict.KEEP:
            self.kept = Lifted(self.g.copy())
        elif verdict.goes_back:
            assert self.kept is not None, "a rule keeps a point before it goes back"
            self.g = Lifted(self.kept.copy())

    def hear(self, message: Message, method: Method, order: Order) -> None:
        """What they remember after they have sent this."""
        self.g = method.mirrored(self.g, message, order.ctx)
        if message.curvature is not None and self.hessians is not None:
            grown = message.curvature.add_to(Lifted(self.hessians.values))
            self.hessians = replace(self.hessians, values=grown)

    @property
    def memory(self) -> Any:
        """As shards have it."""
        return self.g, self.kept, self.notes, self.hessians


class Absences:
    """Who is away, and what everybody remembers. `patience`: seconds after which a host that is away has left."""

    def __init__(self, setup: Setup, supports: Sequence[Support], names: Sequence[str], dtype: Any, patience: float) -> None:
        self.method, self.supports, self.names, self.patience = setup.method, supports, names, patience
        self.value_bits = 8 * np.dtype(dtype).itemsize
        self.asking = setup.curvature
        self.hosts = [
            Remembered(Lifted(np.zeros(s.size, dtype=dtype)), None, {}, None if self.asking is None else nothing_told(s))
            for s in supports
        ]
        self.away: dict[int, Absence] = {}
        self._notes: list[str] = []

    @property
    def memory(self) -> Any:
        """All clients' memory: nobody has to be asked for it."""
        return joined_memory([host.memory for host in self.hosts])

    def recall(self, pieces: Sequence[Any]) -> None:
        """What every host's clients remember from now on."""
        self.hosts = [Remembered(*piece) for piece in pieces]

    def counted(self, order: Order, said: Sequence[Message | str], known: Sequence[Frames]) -> list[Message]:
        """The messages of a round, from what every host said, or why that is nothing; `known`: how a message would look."""
        for host, support in zip(self.hosts, self.supports, strict=True):
            host.obey(order.verdict)
            if order.curvature and host.hessians is not None and not len(host.hessians.values):
                host.hessians = self._asked(support, order.ctx)
        there = {k: message for k, message in enumerate(said) if isinstance(message, Message)}
        if len(there) < len(said) or any(was_away(support, order.kept) for support in self.supports):
            belief = Belief.of(order, self.supports, [host.g for host in self.hosts], there, self.value_bits)
            messages = [self._attended(k, each, known[k], belief, order) for k, each in enumerate(said)]
            first = messages[0].presence
            messages[0].presence = replace(first, surprise=first.surprise + belief.incomparable)
        else:
            messages = list(there.values())
        for k, message in there.items():
            self.hosts[k].hear(message, self.method, order)
        for host, support in zip(self.hosts, self.supports, strict=True):
            host.notes = host.notes | {type(probe).__name__: probe.recalled(support, order.x) for probe in order.probes}
        return messages

    def _asked(self, support: Support, ctx: Round) -> RowMemory:
        """The Hessian estimates of clients that are asked for the first time."""
        assert self.asking is not None, "a run that asks for curvature says so before round 0"
        nothing, sizes = nothing_told(support), self.asking.told_by(support, ctx.seed).sizes
        nothing.counts[self.asking.tellers(support, ctx.seed)] = sizes * (sizes + 1) // 2
        return replace(nothing, values=np.zeros(int(nothing.counts.sum())))

    def _attended(self, k: int, said: Message | str, known: Frames, belief: Belief, order: Order) -> Message:
        if isinstance(said, str):
            return self._missed(k, said, known, belief, order)
        if was_away(self.supports[k], order.kept):
            said.presence = Presence(back=True, surprise=belief.surprise(k, said))
        return said

    def _missed(self, k: int, why: str, known: Frames, belief: Belief, order: Order) -> Message:
        """A host took no part; what counts as its message."""
        asked, t = k not in self.away, order.ctx.t
        absence = self.away.setdefault(k, Absence(t, monotonic()))
        if asked:
            LOG.warning("%s takes no part in round %d: %s", self.names[k], t, why)
        if not absence.left and monotonic() - absence.since > self.patience:
            absence.left = True
            self._note(f"{self._clients(k)} left in round {t}, not heard of since round {absence.first}")
        nothing = np.zeros_like(known.counts)
        frames = replace(known, counts=nothing, index_bits=nothing, announced=True)
        support, g = self.supports[k], self.hosts[k].g
        there = Presence(there=False, informed=asked, left=absence.left)
        numbers = belief.numbers(k, support.n, 0.0 if absence.left else belief.rest)
        message = Message(support, NOWHERE, g[:0], frames, telemetry=numbers, presence=there)
        if absence.left and g.any():  # also where a step back has brought them back
            message.positions, message.values, message.presence = None, -g, replace(there, back=True)
            self.hosts[k].g = Lifted(np.zeros_like(g))
        return message

    def unsound(self, message: Message, order: Order) -> str:
        """Why an answer is none; a step that led too far is no such reason, where it can be undone."""
        curved = message.curvature is None or _is_finite(message.curvature)
        if curved and _is_finite(message):
            return ""
        at = losses_at(order, self.value_bits)
        if not curved or at is None or order.broadcast is None:
            return "its numbers are not finite"
        assert message.telemetry is not None, "it has a loss"
        message.telemetry[:, at] = inf
        return ""

    def losses(self, k: int, x: Model, kept: Kept) -> PerClient:
        """What the losses of a host that is away count as at x, where nobody says how the others curve."""
        return guessed(self.hosts[k].g, self.supports[k], x, kept)

    def returned(self, k: int, t: int) -> None:
        """A host is where the server is, from round t on."""
        absence = self.away.pop(k, None)
        if absence is None:  # it was late in round t, and is asked again
            return
        if absence.left:
            self._note(f"{self._clients(k)} came back in round {t}, from g_i = 0")
        else:
            self._note(f"{self._clients(k)} took no part in rounds {absence.first} to {t - 1}")

    @property
    def notes(self) -> tuple[str, ...]:
        """Who was away, and from when to when."""
        return (*self._notes, *self._still())

    def _still(self) -> Iterator[str]:
        for k, each in self.away.items():
            if not each.left:
                yield f"{self._clients(k)} took no part from round {each.first} on"

    def _clients(self, k: int) -> str:
        first, n = self.supports[k].first, self.supports[k].n
        return f"{self.names[k]} (clients {first} to {first + n - 1})"

    def _note(self, text: str) -> None:
        LOG.warning("%s", text)
        self._notes.append(text)


def _is_finite(message: Message) -> bool:
    numbers = message.values if message.telemetry is None else np.append(message.values, message.telemetry)
    return bool(np.isfinite(numbers).all())
