"""A shard's whole life as bytes, from rows that nobody else ever sees: the server needs none, and no program of its own kind
on the other side.

    prepare, prepared   what the shards have to know of each other (`clients.speaking`): who owns which feature, what scaling
                        needs, every L_i; at the end of it the server hears the problem
    start               what clients know of a run before round 0, and what the server takes the problem for (packed)
                        -> nothing; refused where that is not what was prepared here
and then all that a `Host` answers, as long as the run's number carries the digest of that start (`wire.requests`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import errorfeedback
from errorfeedback.clients.joined_problem import spread_over
from errorfeedback.clients.serving import Answering, Host, host
from errorfeedback.clients.speaking import Speaker
from errorfeedback.problems.base import Problem
from errorfeedback.problems.conversation import Conversation, Seat, check_alike
from errorfeedback.problems.glm import GLM
from errorfeedback.problems.scaling import Scaled, scaled_with_all
from errorfeedback.problems.spread import Spread, shard_of_all
from errorfeedback.storage.files import value_of
from errorfeedback.storage.packing import fingerprint
from errorfeedback.wire.request_log import CONVERSATION, SET_UP
from errorfeedback.wire.requests import DONE, Request, digest_of, run_digest

Joined = tuple[Spread, Any]
"""The problem of all places, and what else they know then and the server is to know too."""


@dataclass(frozen=True, eq=False)
class Introduction:
    """What a place lets the server know of its own clients, and no other place."""

    names: list[Any]
    """What they are called, in their order."""
    more: Any = None


class PreparedPlace(Answering, ABC):
    """The clients of one place with rows of their own. `verbs`: what it answers beside."""

    def __init__(self, verbs: dict[str, Callable[[bytes], bytes]]) -> None:
        self.speaker = Speaker(self._prepare, self._report)
        self.host: Host | None = None
        self.run: int | None = None
        """What was started, by its number."""
        super().__init__({**self.speaker.verbs, "start": self._start, **verbs})

    @abstractmethod
    def _prepare(self, seat: Seat) -> Conversation[Joined]:
        """What this place says to the others before round 0."""

    @abstractmethod
    def introduction(self) -> Introduction:
        """What it says of its own clients, once it is prepared."""

    def _report(self, joined: Joined) -> Any:
        problem, known = joined
        return problem, known, self.introduction()

    def check(self, request: Request) -> None:
        digest = run_digest(request.run)
        if request.verb == "start" and digest != digest_of(request.body):
            raise ValueError(
                f"the run has the digest {digest:08x}, and that of what it starts is {digest_of(request.body):08x}"
            )
        if self.run is not None and request.verb not in SET_UP and digest != run_digest(self.run):
            raise ValueError(
                f"request {request.number} ({request.verb}) is of another problem, method or options than the run that was "
                f"started here: its digest is {digest:08x}, and here it is {run_digest(self.run):08x}"
            )

    def is_ready(self, request: Request) -> bool:
        return request.verb in CONVERSATION

    def answering(self, verb: str) -> Callable[[bytes], bytes]:
        """This place, or the host that it has become."""
        return super().answering(verb) if self.host is None or verb in self.verbs else self.host.answering(verb)

    def _answer(self, request: Request) -> bytes:
        if request.verb == "prepare" and not request.number:  # nothing is left of what was
            self.host = self.run = None
        answer = super()._answer(request)
        if request.verb == "start" and answer[:1] == DONE:
            self.run = request.run
        return answer

    @property
    def prepared(self) -> Joined:
        """What the conversation came to."""
        if not self.speaker.ended:
            raise ValueError("a shard prepares before it starts")
        return self.speaker.result

    @property
    def ended(self) -> bool:
        """Whether the run is over."""
        return self.host is not None and self.host.ended

    def _start(self, body: bytes) -> bytes:
        problem, _ = self.prepared
        setup, expected = value_of(body, "the request")
        for name, mine in identity_of(problem).items():
            if expected[name] != mine:
                raise ValueError(f"the server's {name} is {expected[name]}, and here it is {mine}: prepare again")
        first = problem.part.support.first
        self.host = host(problem, setup, first, first + problem.part.n)
        return b""

    def snapshot(self) -> bytes | None:
        return None if self.host is None else self.host.snapshot()


class OwnRows(PreparedPlace):
    """A place that was given its `rows`, and lets the server know S of x = S z. `scale`: bring every feature's curvature to
    about 1 (`ef.scaled`)."""

    def __init__(self, rows: GLM, scale: bool = False) -> None:
        self.rows, self.scale = rows, scale
        super().__init__({})

    def introduction(self) -> Introduction:
        return Introduction(list(map(str, self.rows.names.tolist())))

    def _prepare(self, seat: Seat) -> Conversation[Joined]:
        check_alike((yield self.scale), "scale (of OwnRows)")
        part: Problem = yield from shard_of_all(self.rows, seat)
        if self.scale:
            part = yield from scaled_with_all(part, 1.0, 0.0)
        problem = yield from spread_over(part)
        return problem, part.scale if isinstance(part, Scaled) else None


def identity_of(problem: Problem) -> dict[str, str]:
    """What server and places must have alike before a run starts; method and options come with the start."""
    data = problem.digest if isinstance(problem, Spread) else ""
    return {"version": errorfeedback.__version__, "data": data, "features": fingerprint(problem.support)}
