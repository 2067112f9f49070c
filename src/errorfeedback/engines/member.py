"""What a server knows of one node: how to reach it, what it was asked, and what it would have to hear again."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic

from errorfeedback.wire.link import ALIVE, ANSWER, ANSWERED, REQUEST, Link
from errorfeedback.wire.request_log import RequestLog
from errorfeedback.wire.requests import AWAY, BEHIND, DONE, FAILED, Position, Request

KEPT = 2**26
"""Bytes of requests that are kept for a node that has no snapshot on a disk."""
REPLAYS = 3
"""How often a node may be behind with one request on one connection: it is not, after it has heard all of them."""
LOST = "its state is gone, and what led there is no longer kept; give its join a folder that survives, or resume the run"


@dataclass(eq=False)
class Member:
    """One node. It is asked one thing at a time."""

    name: str
    token: str
    link: Link | None = None
    log: RequestLog = field(default_factory=RequestLog)
    asked: Request | None = None
    """What it has not answered yet."""
    answer: bytes = b""
    abandoned: Position | None = None
    """A request that nobody waits for any more, and that it is still at."""
    heard: float = field(default_factory=monotonic)
    """When it last gave a sign of life, or was asked."""
    replays: int = 0
    past: tuple[int, int] = (0, 0)
    """Bytes sent and received over connections that are no more."""

    @property
    def traffic(self) -> tuple[int, int]:
        """Bytes sent to it and received from it, at the socket."""
        here = (0, 0) if self.link is None else (self.link.sent, self.link.received)
        return self.past[0] + here[0], self.past[1] + here[1]

    def connect(self, link: Link) -> None:
        """It calls, perhaps again: what it has not answered is asked again."""
        self.drop()
        self.link, self.heard, self.abandoned, self.replays = link, monotonic(), None, 0
        if self.asked is not None:
            link.put(REQUEST, self.asked.pack())

    def drop(self) -> None:
        """The connection is no more."""
        if self.link is not None:
            self.past, link = self.traffic, self.link
            self.link = None
            link.close()

    def ask(self, sent: bytes) -> None:
        """One request; nothing where it is empty."""
        if not sent:
            self.answer = AWAY
            return
        self.asked, self.answer, self.replays, self.heard = Request.unpack(sent), b"", 0, monotonic()
        self.log.add(self.asked)
        if self.log.size > KEPT:
            self.log.forget(self.asked.number)
        if self.link is not None:
            with suppress(OSError):  # it is gone: whoever listens to it will notice, and it is asked when it calls again
                self.link.put(REQUEST, sent)

    def give_up(self) -> None:
        """Wait no longer for its answer."""
        if self.asked is not None:
            self.abandoned = self.asked.position if self.link is not None else None
            self.asked, self.answer = None, AWAY

    @property
    def is_free(self) -> bool:
        """It is there, and at nothing."""
        return self.link is not None and self.asked is None and self.abandoned is None

    def hear(self, frame: bytes) -> None:
        """What it says; `OSError` where it may not."""
        self.heard = monotonic()
        if frame == ALIVE:
            return
        if frame[:1] != ANSWER or len(frame) < 1 + ANSWERED.size:
            raise ConnectionAbortedError(f"a frame that begins with {frame[:8]!r}")
        run, number, stable = ANSWERED.unpack_from(frame, 1)
        answer, position = frame[1 + ANSWERED.size :], Position(run, number)
        if position == self.abandoned:
            self.abandoned = None
        elif self.asked is not None and position == self.asked.position:
            self._answered(answer, min(stable, number))

    def _answered(self, answer: bytes, stable: int) -> None:
        if answer[:1] == BEHIND and self.replays < REPLAYS:
            self.replays += 1
            answer = self._replay(answer[1:])
        elif answer[:1] not in (DONE, FAILED):
            answer = FAILED + f"an answer that begins with {answer[:1]!r}".encode()
        if answer:
            self.asked, self.answer = None, answer
            self.log.forget(stable)

    def _replay(self, packed: bytes) -> bytes:
        """Send again what it has missed; why not, where that is impossible."""
        missing = self.log.after(Position.unpack(packed) if len(packed) == 16 else None)
        if missing is None:
            return FAILED + LOST.encode()
        assert self.link is not None, "it has just spoken"
        for request in missing:
            self.link.put(REQUEST, request.pack())
        return b""
