"""A shard's whole life as a server of requests: bytes in, bytes out. An engine carries them and knows nothing of
optimisation.

What a host has beside its shards is what every client has: x on its features, the downlink's memory, and the point that it
kept.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache
from typing import Any

import numpy as np

from errorfeedback.clients.bending import MISSING_WIDTHS, bend_key
from errorfeedback.clients.order import Order, Setup
from errorfeedback.clients.shard import shards_of
from errorfeedback.clients.shards import LocalSession, shards_for
from errorfeedback.core import VALUE_BITS, Integers, Round
from errorfeedback.downlinks.base import Answers, Broadcast, heard
from errorfeedback.probes.base import Probes, widths_of
from errorfeedback.problems.base import Problem
from errorfeedback.sparsity.support import Support
from errorfeedback.stepsizes.base import COMMAND_BITS, Verdict
from errorfeedback.storage.files import content, value_of
from errorfeedback.wire.bits import Bytes
from errorfeedback.wire.codec import NOTHING_BESIDE, WireError, decode, encode, encode_losses
from errorfeedback.wire.coding import FULL, Coding
from errorfeedback.wire.frames import Frames
from errorfeedback.wire.framing import HALF
from errorfeedback.wire.message import KnownLayout, Message
from errorfeedback.wire.requests import CURVED, DONE, FAILED, FINELY, MOVED, PLACED, ROUND, Position, Request
from errorfeedback.wire.truncated import numbers, patterns

VERDICTS = tuple(Verdict)
"""A command is the place of its verdict here."""


class Answering:
    """Bytes in, bytes out: a verb is a function of what it needs."""

    def __init__(self, verbs: dict[str, Callable[[bytes], bytes]]) -> None:
        self.verbs = verbs
        self.last: tuple[Position, bytes] = (Position(0, -1), b"")

    def serve(self, sent: bytes) -> bytes:
        """The answer to a request; to the same request again the same bytes."""
        try:
            request = Request.unpack(sent)
        except ValueError as error:
            return failed(error)
        if request.position != self.last[0]:
            self.last = request.position, self._answer(request)
        return self.last[1]

    def snapshot(self) -> bytes | None:
        """What a `recall` would have to say to bring a place that was only set up to where this one is; None: it has
        nothing behind it that is worth one."""
        return None

    def check(self, request: Request) -> None:
        """Raise where a request cannot be of what goes on here."""

    def is_ready(self, request: Request) -> bool:
        """Whether a request may be the first that is done here."""
        return True

    def answering(self, verb: str) -> Callable[[bytes], bytes]:
        """Who answers that verb here."""
        if verb not in self.verbs:
            raise ValueError(f"a host knows nothing of {verb!r}; it answers {', '.join(self.verbs)}")
        return self.verbs[verb]

    def _answer(self, request: Request) -> bytes:
        try:
            self.check(request)
            return DONE + self.answering(request.verb)(request.body)
        except Exception as error:
            return failed(error)


class Host(Answering):
    """Some clients that are asked by bytes: `part` has them, `support` their features, `setup` what they know of the run.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=4, d=6, m=3, c=2)
    >>> setup = ef.Setup(ef.EF21(ef.TopK(1)), ef.Whole(), problem.x0, commands=False)
    >>> place: ef.Host = ef.host(problem, setup, 2, 4)  # the last two clients
    >>> place.serve(Request("values", 0, bytes(1)).pack())[:1]  # done: their losses, where they stand
    b'='
    >>> place.serve(Request("dance", 1, b"").pack()).decode()[:46]
    "!ValueError: a host knows nothing of 'dance'; "
    """

    def __init__(self, part: LocalSession, support: Support, setup: Setup) -> None:
        self.part, self.support, self.setup = part, support, setup
        self.x = np.zeros_like(setup.x)
        self.downlink = setup.downlink.start(self.x)
        self.kept = deepcopy((self.x, self.downlink))
        self.ctx = Round(0, 0)
        self.result: Any = None
        self.ended = False
        self.code, self.reason = 0, ""
        """How the run ended, where it has no result: an exit code, and why."""
        verbs: dict[str, Callable[[bytes], bytes]] = {
            "round": self._round,
            "values": self._values,
            "observe": lambda body: content(self.part.observe(*value_of(body, "the request"))),
            "memory": lambda body: content(self.part.memory()),
            "recall": self._recall,
            "result": self._result,
            "close": self._close,
        }
        super().__init__(verbs)

    def _round(self, body: bytes) -> bytes:
        t, seed, flags, length = ROUND.unpack_from(body)
        probes = unpacked_probes(body[ROUND.size : ROUND.size + length])
        self.ctx = Round(t, seed)
        frames = np.frombuffer(body, dtype=np.uint8, offset=ROUND.size + length)
        verdict = self._hear(frames, flags, listening=bool(probes))
        curved, finely = bool(flags & CURVED), bool(flags & FINELY)
        if curved and self.setup.curvature is not None:
            self.ctx.step_bits = max(self.ctx.step_bits, self.setup.curvature.bits(finely))
        messages = self.part.round(Order(self.ctx, self.x, None, probes, verdict, curved, finely))
        widths = widths_of(probes, 8 * self.x.dtype.itemsize)
        framed = [self._framed(message, k, widths) for k, message in enumerate(messages)]
        return b"".join(
            [*framed, *(self._bent(message.curvature, k, finely) for k, message in enumerate(messages) if message.curvature)]
        )

    def _bent(self, message: Message, k: int, finely: bool) -> bytes:
        """The frames of the curvature."""
        bending = self.part.shards[k].bending
        tellers = None if bending is None else bending.tellers(self.ctx.seed)
        assert tellers is not None, "it was asked, and told"
        assert message.telemetry is not None, "it says what is missing"
        missing = patterns(message.telemetry, MISSING_WIDTHS)
        key, words = bend_key(self.ctx), tellers.words(finely)
        return encode(words.folded(message), words.known(key), key, missing, MISSING_WIDTHS).tobytes()

    def _hear(self, frames: Bytes, flags: int, listening: bool) -> Verdict:
        """Go where the server's x is; what is to be done with the clients' memory."""
        moved, ctx, setup = bool(flags & MOVED), self.ctx, self.setup
        answers = self._answers() if setup.method.rests and ctx.t and not listening else None
        coding = self._coding(frames) if moved else FULL
        if ctx.t and moved and len(setup.downlink.codings) > 1:
            ctx.step_bits = coding.width(VALUE_BITS)
        known = down_known(setup, self.support, ctx.t, moved, answers, coding)
        widths = down_widths(setup, moved and ctx.t > 0)
        message, beside = decode(frames, known, self.support, down_key(ctx), self.x.dtype, widths, coding)
        if len(beside) and (beside != beside[0]).any():
            raise WireError("the clients of one host were told different things")
        verdict = VERDICTS[int(beside[0, 0])] if setup.commands else Verdict.GO
        if not flags & PLACED:
            shared = numbers(beside[:1], widths)[0][int(setup.commands) :] if len(widths) else ()
            self._move(verdict, heard(message, tuple(map(float, shared)), coding) if moved else None)
        return verdict

    def _coding(self, frames: Bytes) -> Coding:
        """How the values of a message down travel, by its first byte."""
        codings = self.setup.downlink.codings if self.ctx.t else (FULL, *self.setup.downlink.codings)
        if len(codings) == 1 or not len(frames):
            return codings[0]
        marks = {coding.mark(self.x.dtype): coding for coding in codings}
        return marks.get(int(frames[0]) % HALF, codings[0])  # what is wrong is found when it is decoded

    def _move(self, verdict: Verdict, broadcast: Broadcast | None) -> None:
        if verdict is Verdict.KEEP:
            self.kept = deepcopy((self.x, self.downlink))
        elif verdict.goes_back:
            self.x, self.downlink = deepcopy(self.kept)
        if broadcast is None:
            return
        if self.ctx.t:
            self.downlink = self.setup.downlink.receive(self.downlink, self.x, broadcast)
        else:
            self.x[broadcast.features] = broadcast.values[broadcast.features]
            self.downlink = self.setup.downlink.start(self.x)

    def _answers(self) -> Answers:
        """Who takes part in this round."""
        known = [self.setup.method.known(shard.node.compress, self.ctx).frames for shard in self.part.shards]
        return None if known[0].answers is None else np.concatenate([each.answers for each in known])

    def _framed(self, message: Message, k: int, widths: Integers) -> bytes:
        known = self.setup.method.known(self.part.shards[k].node.compress, self.ctx)
        telemetry = NOTHING_BESIDE if message.telemetry is None else patterns(message.telemetry, widths)
        return encode(message, known, self.ctx, telemetry, widths).tobytes()

    def _values(self, body: bytes) -> bytes:
        x = self.kept[0] if body[0] else self.x
        return encode_losses(self.part.values(x), self.support.first, self.ctx).tobytes()

    def _recall(self, body: bytes) -> bytes:
        memory, here, kept, ctx = value_of(body, "the request")
        self.x, self.downlink = here
        self.kept = deepcopy(here) if kept is None else kept
        self.ctx = Round(*ctx)
        self.part.recall(memory, here, kept)
        return b""

    def snapshot(self) -> bytes:
        here, ctx = (self.x, self.downlink), (self.ctx.t, self.ctx.seed, self.ctx.step_bits)
        return content((self.part.memory(), here, self.kept, ctx))

    def _result(self, body: bytes) -> bytes:
        self.result, self.ended = value_of(body, "the request"), True
        return b""

    def _close(self, body: bytes) -> bytes:
        (self.code, self.reason), self.ended = value_of(body, "the request"), True
        return b""


def failed(error: Exception) -> bytes:
    """The answer of a place that has none, and why."""
    return FAILED + f"{type(error).__name__}: {error}".encode()


def host(problem: Problem, setup: Setup, lo: int, hi: int) -> Host:
    """The clients `lo`, ..., `hi` - 1 of a `problem`, ready to be asked; `setup` is what they know of the run."""
    part = LocalSession(shards_of(problem, setup, lo, hi, shards_for(problem, hi - lo)))
    return Host(part, problem.support.shard(lo, hi), setup)


def down_key(ctx: Round) -> Round:
    """What a frame down is keyed by: no frame up can be taken for it."""
    return Round(-1 - ctx.t, ctx.seed)


def down_widths(setup: Setup, numbers: bool) -> Integers:
    """Bits of what every client hears beside values: a command, and the downlink's numbers."""
    command = [COMMAND_BITS] if setup.commands else []
    return np.array(command + [VALUE_BITS] * (setup.downlink.numbers * numbers), dtype=np.int64)


def down_known(setup: Setup, support: Support, t: int, moved: bool, answers: Answers, coding: Coding) -> KnownLayout | None:
    """What both sides know of a message down before it comes: no values where nobody moves; nothing of the first x, where
    that is not zero and no step of few bits."""
    if not moved:
        return KnownLayout(Frames(*np.zeros((2, support.n), dtype=np.int64)))
    return setup.downlink.known(support, answers, coding) if t or coding is not FULL else None


@lru_cache
def packed_probes(probes: Probes) -> bytes:
    """The probes for a request."""
    return content(list(probes)) if probes else b""


@lru_cache
def unpacked_probes(packed: bytes) -> Probes:
    """The probes of a request."""
    return tuple(value_of(packed, "the request")) if packed else ()
