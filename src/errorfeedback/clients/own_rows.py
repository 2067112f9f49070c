"""A shard's whole life as bytes, from rows that nobody else ever sees: the server needs none, and no program of its own kind
on the other side.

    prepare   what all shards said the last time (packed) -> what this one says to all, or the problem (packed)
    start     what clients know of a run before round 0 (packed) -> nothing
and then all that a `Host` answers. What the shards have to know of each other (who owns which feature, the sums that scaling
needs, every L_i) they ask as the processes of a group do (`problems.process_group`); the server passes it on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from errorfeedback.clients.joined_problem import spread_over
from errorfeedback.clients.serving import Answering, Host, host
from errorfeedback.core import Floats, Model
from errorfeedback.problems.base import Problem
from errorfeedback.problems.glm import GLM
from errorfeedback.problems.scaling import Scaled, scaled
from errorfeedback.problems.spread import Spread, shard_of_all
from errorfeedback.storage.files import content, value_of

T = TypeVar("T")


class Asked:
    """The group of processes as a shard sees it that is asked: what it says is an answer, what it hears a request."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.says: SimpleQueue[tuple[bool, Any]] = SimpleQueue()
        """Whether it has all it needs; and what it says to everybody, or the problem."""
        self.hears: SimpleQueue[Any] = SimpleQueue()

    def all(self, value: T) -> list[T]:
        self.says.put((False, value))
        return self.hears.get()

    def in_turn(self, total: Floats, add: Callable[[Floats], Any]) -> Floats:
        for rank in range(self.size):
            if rank == self.rank:
                add(total)
            total[:] = self.all(total if rank == self.rank else None)[rank]
        return total

    def guard(self) -> AbstractContextManager[None]:
        return nullcontext()

    def hand_out(self, parts: Callable[[], Sequence[T]]) -> T:
        raise ValueError("rows are where they are: a shard that is asked hands out none")


class OwnRows(Answering):
    """The clients of one place with rows of their own. `scale`: bring every feature's curvature to about 1 (`ef.scaled`)."""

    def __init__(self, rows: GLM, scale: bool = False) -> None:
        super().__init__({"prepare": self._prepare, "start": self._start})
        self.rows, self.scale = rows, scale
        self.group: Asked | None = None
        self.problem: Spread | None = None
        self.host: Host | None = None

    def serve(self, sent: bytes) -> bytes:
        """The answer to any request, whatever the shard has come to."""
        mine = self.host is None or sent.startswith(tuple(f"{verb}\n".encode() for verb in self.verbs))
        return super().serve(sent) if mine or self.host is None else self.host.serve(sent)

    @property
    def ended(self) -> bool:
        """Whether the run is over."""
        return self.host is not None and self.host.ended

    def _prepare(self, body: bytes) -> bytes:
        begins, heard = value_of(body, "the request")
        if begins:
            self.group = Asked(*heard)
            Thread(target=self._make, args=(self.group,), name="errorfeedback", daemon=True).start()
        elif self.group is not None:
            self.group.hears.put(heard)
        else:
            raise ValueError("nothing is being prepared here")
        ready, said = self.group.says.get()
        if not ready:
            return content((False, said))
        self.group = None
        if isinstance(said, Exception):
            raise said
        self.problem, scale = said
        return content((True, (self.problem, scale, self.rows.n)))

    def _make(self, group: Asked) -> None:
        try:
            part: Problem = shard_of_all(self.rows, group)
            part = scaled(part, group) if self.scale else part
            scale: Model | None = part.scale if isinstance(part, Scaled) else None
            group.says.put((True, (spread_over(part, group), scale)))
        except Exception as error:  # raised again where it is asked for
            group.says.put((True, error))

    def _start(self, body: bytes) -> bytes:
        if self.problem is None:
            raise ValueError("a shard prepares before it starts")
        first = self.problem.part.support.first
        self.host = host(self.problem, value_of(body, "the request"), first, first + self.rows.n)
        return b""
