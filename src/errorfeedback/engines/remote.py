"""The server's side of shards that live elsewhere: every question becomes requests, and answers become messages again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import count, pairwise
from math import inf
from typing import Any, TypeVar

import numpy as np

from errorfeedback.clients.bending import MISSING_WIDTHS, bend_key
from errorfeedback.clients.memory import cut_memory, joined_memory, lengths_of
from errorfeedback.clients.order import Kept, Order, Place, Setup
from errorfeedback.clients.own_rows import identity_of
from errorfeedback.clients.serving import VERDICTS, down_key, down_known, down_widths, packed_probes
from errorfeedback.clients.shard import Observation
from errorfeedback.clients.shards import LocalSession, joined
from errorfeedback.compressors.base import Operator
from errorfeedback.core import Integers, Model, PerClient, Round
from errorfeedback.engines.absences import Absences
from errorfeedback.engines.base import Interrupted, Transport
from errorfeedback.probes.base import widths_of
from errorfeedback.problems.base import Problem
from errorfeedback.sparsity.pairs import pairs_of
from errorfeedback.sparsity.support import Support
from errorfeedback.storage.files import LONG, content, value_of
from errorfeedback.wire.bits import Bytes
from errorfeedback.wire.codec import WireError, decode, decode_losses, encode, said
from errorfeedback.wire.coding import FULL, Patterns
from errorfeedback.wire.frames import Frames
from errorfeedback.wire.message import NOWHERE, KnownLayout, Message
from errorfeedback.wire.requests import AWAY, CURVED, DONE, FINELY, FLAG, MOVED, PLACED, ROUND, Request, digest_of, new_run
from errorfeedback.wire.truncated import numbers, patterns

T = TypeVar("T")


def checked(transport: Transport, answers: list[bytes]) -> list[bytes]:
    """The hosts' answers; a host that has none ends the run."""
    for k, answer in enumerate(answers):
        if answer[:1] != DONE:
            transport.fail(k, answer[1:].decode(errors="replace"))
    return [answer[1:] for answer in answers]


class RemoteSession:
    """Hosts of a `problem` that are asked by bytes over a `transport`, after the clients of this process (`own`), where it
    has some; `setup` is what they know of the run.

    `cuts`: 0, ..., n: where the clients of each part begin and the last one ends; the first part is this process's own,
    where it has one. `start`: the hosts know nothing of the run yet (`OwnRows`). `absences`: hosts may miss rounds.
    """

    def __init__(
        self,
        transport: Transport,
        problem: Problem,
        setup: Setup,
        cuts: Sequence[int],
        own: LocalSession | None = None,
        start: bool = False,
        absences: Absences | None = None,
    ) -> None:
        self.transport, self.setup, self.own, self.absences = transport, setup, own, absences
        self.support, self.dtype = problem.support, problem.dtype
        self.parts = [problem.support.shard(lo, hi) for lo, hi in pairwise(cuts)]
        self.supports = self.parts[1:] if own is not None else self.parts
        self.operators = [setup.method.compressor.on(support) for support in self.supports]
        """The hosts' compressors: to tell what they need not send."""
        started = content((setup, identity_of(problem))) if start else None
        self.run, self.ctx = new_run(None if started is None else digest_of(started)), Round(0, 0)
        self.numbers = [count() for _ in self.supports]
        self.placed: set[int] = set()
        """Hosts that have been told already where x is."""
        self.kept: Kept | None = None
        """The point that the clients' memory may go back to."""
        self.open, self.waiting = True, False
        if started is not None:
            self._ask("start", started)
            self._answers()

    def carry(self, job: Callable[[], T]) -> T:
        with self.transport.running():
            result = job()
        self._ask("result", content(result))
        self._end()
        self.open = False
        return result

    def round(self, order: Order) -> list[Message]:
        self.transport.before_round()
        if self.absences is not None:
            return self._round_of(self.absences, order)
        self.ctx = order.ctx
        self._send("round", [self._request(order, k) for k in range(len(self.supports))])
        self.placed = set()
        messages = [] if self.own is None else self.own.round(order)
        return [*messages, *(self._message(order, k, answer) for k, answer in enumerate(self._answers()))]

    def _round_of(self, absences: Absences, order: Order) -> list[Message]:
        """A round that hosts may miss."""
        answers = self._attendance(absences, order)
        self.ctx, self.kept = order.ctx, order.kept
        said = [self._said(absences, order, k, answer) for k, answer in enumerate(answers)]
        known = [self.setup.method.known(operator, order.ctx).frames for operator in self.operators]
        return absences.counted(order, said, known)

    def _attendance(self, absences: Absences, order: Order) -> list[bytes]:
        """What every host answers in a round. Who was away is asked as soon as it can be, and while too few have answered
        also in the middle of the round, in place of who does not. Every time there is twice as long to answer: two hosts
        that are slower than the deadline would be asked in each other's place for ever."""
        hosts, quorum = range(len(self.supports)), self.transport.quorum
        answers, refused, deadlines = [AWAY for _ in hosts], set[int](), 1
        away, here = list(absences.away), {k for k in hosts if k not in absences.away}
        while True:
            missing = quorum - sum(answer != AWAY for answer in answers)
            here |= self._welcome(absences, order, away, refused, missing - len(here), deadlines)
            self._send("round", [self._request(order, k) if k in here else None for k in hosts])
            self.placed = set()
            others = [k for k in away if k not in here | refused]
            new = self._in_time(missing, others, deadlines) if order.ctx.t else self._received()
            answers = [answer if answer != AWAY else new[k] for k, answer in enumerate(answers)]
            if sum(answer != AWAY for answer in answers) >= quorum:
                return answers
            away, here = [k for k in hosts if answers[k] == AWAY and k not in refused], set()
            deadlines = self._twice(deadlines, away)

    def _twice(self, deadlines: int, away: Sequence[int]) -> int:
        """How long hosts have the next time; not for ever."""
        if 2 * deadlines * (self.transport.deadline or inf) > self.transport.patience:
            names = ", ".join(map(self.transport.name, away))
            raise TimeoutError(
                f"{names} did not answer, however often, for {self.transport.patience:g} seconds, and a round needs "
                f"{self.transport.quorum}"
            )
        return 2 * deadlines

    def _said(self, absences: Absences, order: Order, k: int, answer: bytes) -> Message | str:
        """A host's message, where it took part, or why it did not; nobody is missing in round 0."""
        why = "it has not answered in time" if answer == AWAY else answer[1 : 1 + LONG].decode(errors="replace")
        if answer[:1] == DONE:
            try:
                message = self._message(order, k, answer[1:])
                why = absences.unsound(message, order)
                if not why:
                    return message
            except ValueError as error:  # no message of these clients
                why = str(error)
        if order.ctx.t == 0:
            self.transport.fail(k, why)
        return why

    def _welcome(
        self,
        absences: Absences,
        order: Order,
        away: Collection[int],
        refused: set[int],
        least: int,
        deadlines: int,
    ) -> set[int]:
        """Bring those who were away to where the server is, as soon as they can be asked; wait while these are fewer than
        `least`. Who cannot be brought there is among the `refused` for the rest of the round."""
        back = self.transport.returned(away, least) if away else []
        if not back:
            return set()
        here, ctx = (order.x, order.downlink), (self.ctx.t, self.ctx.seed, self.ctx.step_bits)
        kept = None if order.kept is None else order.kept.place
        memories = {k: content((absences.hosts[k].memory, here, kept, ctx)) for k in back}
        self._send("recall", [memories.get(k) for k in range(len(self.supports))])
        answers = self._in_time(0, deadlines=deadlines)
        for k in back:
            if answers[k][:1] == DONE:
                absences.returned(k, order.ctx.t)
                self.placed.add(k)
            elif answers[k] != AWAY:
                refused.add(k)
                if len(away) - len(refused.intersection(away)) < least:  # nobody else could make up for it
                    self.transport.fail(k, answers[k][1 : 1 + LONG].decode(errors="replace"))
        return self.placed & set(back)

    def _message(self, order: Order, k: int, answer: bytes) -> Message:
        """What a host's clients send."""
        operator, widths = self.operators[k], widths_of(order.probes, 8 * self.dtype.itemsize)
        known = self.setup.method.known(operator, order.ctx)
        frames = np.frombuffer(answer, dtype=np.uint8)
        bent = self._bent_by(k, order)
        length = len(frames) if bent is None else self._length(frames, known, operator.support, widths)
        message, beside = decode(frames[:length], known, operator.support, order.ctx, self.dtype, widths)
        message.telemetry = numbers(beside, widths) if order.probes else None
        message.curvature = None if bent is None else self._curvature(frames[length:], bent, order.ctx)
        return message

    def _length(self, frames: Bytes, known: KnownLayout, support: Support, widths: Integers) -> int:
        """Bytes of the clients' frames, behind which those of the curvature begin."""
        precision = 8 * self.dtype.itemsize
        if not known.frames.announced:
            known = said(frames, support, widths, precision, known.frames.coding)
        return known.frames.cost(int(widths.sum()), precision).bits // 8

    def _bent_by(self, k: int, order: Order) -> Operator | None:
        """How those of a host's clients that tell their Hessians compress them; None where nobody does."""
        if not order.curvature:
            return None
        asking = self.setup.curvature
        assert asking is not None, "a run that asks for curvature says so before round 0"
        tellers = asking.told_by(self.operators[k].support, order.ctx.seed)
        return asking.words(order.finely).on(pairs_of(tellers)) if tellers.n else None

    def _curvature(self, frames: Bytes, operator: Operator, ctx: Round) -> Message:
        known = operator.known(bend_key(ctx))
        try:
            folded, missing = decode(frames, known, operator.wire, bend_key(ctx), np.dtype(np.float64), MISSING_WIDTHS)
        except WireError as error:
            raise WireError(f"{error} (of Hessians; clients are numbered among those who tell theirs)") from error
        message = operator.unfolded(folded)
        message.telemetry = numbers(missing, MISSING_WIDTHS)
        return message

    def _request(self, order: Order, k: int) -> bytes:
        """What a host hears in a round."""
        support, setup, broadcast, t = self.supports[k], self.setup, order.broadcast, order.ctx.t
        resting = setup.method.rests and t and not order.probes
        answers = setup.method.known(self.operators[k], order.ctx).frames.answers if resting else None
        coding = FULL if broadcast is None else broadcast.coding
        known = down_known(setup, support, t, broadcast is not None, answers, coding)
        silent = Message(support, NOWHERE, order.x[:0], Frames(*np.zeros((2, support.n), dtype=np.int64)))
        message = silent if broadcast is None else broadcast.on(support, answers)
        widths = down_widths(setup, broadcast is not None and t > 0)
        frames = encode(message, known, down_key(order.ctx), self._beside(order, support.n), widths)
        probes = packed_probes(order.probes)
        head = ROUND.pack(t, order.ctx.seed, self._flags(order, k), len(probes))
        return b"".join((head, probes, frames.tobytes()))

    def _flags(self, order: Order, k: int) -> int:
        placed = MOVED * (order.broadcast is not None) | PLACED * (k in self.placed)
        return placed | CURVED * order.curvature | FINELY * order.finely

    def _beside(self, order: Order, n: int) -> Patterns:
        """(n, numbers): the command, and the downlink's numbers."""
        command = np.array([VERDICTS.index(order.verdict)] if self.setup.commands else [], dtype=np.uint64)
        shared = np.array([] if order.broadcast is None else order.broadcast.numbers)
        bits = np.full(len(shared), 64)
        return np.tile(np.concatenate([command, patterns(shared[None, :], bits)[0]]), (n, 1))

    def observe(self, x: Model, losses: bool = True) -> Observation:
        self._ask("observe", content((x, losses)))  # a simulation may: who misses a round need not know x
        mine = [] if self.own is None else [self.own.observe(x, losses)]
        return joined([*mine, *self._values_of(self._answers())])

    def values(self, x: Model, kept: bool = False) -> PerClient:
        self._ask("values", FLAG.pack(kept))
        mine = [] if self.own is None else [self.own.values(x)]
        if self.absences is not None:
            believed = [self._believed(self.absences, k, x, answer) for k, answer in enumerate(self._in_time(0))]
            return PerClient(np.concatenate(believed))
        return PerClient(np.concatenate([*mine, *(self._losses(k, answer) for k, answer in enumerate(self._answers()))]))

    def _losses(self, k: int, answer: bytes) -> PerClient:
        return decode_losses(np.frombuffer(answer, dtype=np.uint8), self.supports[k], self.ctx)

    def _believed(self, absences: Absences, k: int, x: Model, answer: bytes) -> PerClient:
        """A host's losses, as far as it is there to tell them."""
        if answer[:1] == DONE:
            with suppress(ValueError):  # no losses of these clients
                return self._losses(k, answer[1:])
        if self.kept is None:  # a run that had stopped already: nothing is known of them
            self.transport.fail(k, "it does not tell its losses")
        return absences.losses(k, x, self.kept)

    def ask(self, verb: str, bodies: Sequence[bytes]) -> list[bytes]:
        """What hosts answer that know more verbs than a `Host` does, between two rounds; everybody is waited for."""
        self._send(verb, bodies)
        return self._answers()

    def memory(self) -> Any:
        if self.absences is not None:  # nobody has to be asked
            return self.absences.memory
        self._ask("memory", b"")
        mine = [] if self.own is None else [self.own.memory()]
        return joined_memory([*mine, *self._values_of(self._answers())])

    def recall(self, memory: Any, here: Place, kept: Place | None) -> None:
        pieces = cut_memory(memory, [lengths_of(part) for part in self.parts])
        if self.own is not None:
            mine, *pieces = pieces
            self.own.recall(mine, here, kept)
        ctx = (self.ctx.t, self.ctx.seed, self.ctx.step_bits)
        self._send("recall", [content((piece, here, kept, ctx)) for piece in pieces])
        self._answers()
        self.placed = set(range(len(self.supports)))
        if self.absences is not None:
            self.absences.recall(pieces)

    def close(self) -> None:
        """Where the run did not end by itself the hosts are told why."""
        if self.open:
            error = sys.exception()
            self.transport.failing()
            if self.waiting:  # their answers to the last question
                self.transport.receive()
            code = error.code if isinstance(error, Interrupted) else 1
            self._ask("close", content((code, f"{type(error).__name__}: {error}")))
            self._end()
            self.open = False
        self.transport.close()
        if self.own is not None:
            self.own.close()

    def _end(self) -> None:
        """The last answers; who is away then has missed the end too."""
        if self.absences is None:
            self._answers()
        else:
            self._in_time(0)

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self.absences is None else self.absences.notes

    def _ask(self, verb: str, body: bytes) -> None:
        away = set() if self.absences is None else self.absences.away.keys()
        self._send(verb, [None if k in away else body for k in range(len(self.supports))])

    def _send(self, verb: str, bodies: Sequence[bytes | None]) -> None:
        asked = [
            body if body is None else Request(verb, next(self.numbers[k]), body, self.run) for k, body in enumerate(bodies)
        ]
        self.transport.send([b"" if request is None else request.pack() for request in asked])
        self.waiting = True

    def _answers(self) -> list[bytes]:
        """Of everybody, and all of them good."""
        return checked(self.transport, self._received())

    def _received(self) -> list[bytes]:
        return self._while_waiting(self.transport.receive)

    def _in_time(self, least: int, others: Collection[int] = (), deadlines: int = 1) -> list[bytes]:
        return self._while_waiting(lambda: self.transport.receive_in_time(least, others, deadlines))

    def _while_waiting(self, receive: Callable[[], list[bytes]]) -> list[bytes]:
        """Whoever ends the run in here finds hosts that cannot be told."""
        self.waiting, self.open = False, False
        answers = receive()
        self.open = True
        return answers

    def _values_of(self, answers: list[bytes]) -> list[Any]:
        return [value_of(answer, self.transport.name(k)) for k, answer in enumerate(answers)]
