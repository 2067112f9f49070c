"""Shards on the ranks of an MPI job: `mpiexec -n 4 python train.py`, where the program calls solve(..., engine=ef.MPI()).

Rank 0 is the server and has clients too. What the ranks have to know of each other before round 0, and every round, is one
request after the other to each of the others and an answer from each (`engines.conducting`, `engines.remote`); nothing is
pickled. Every rank returns from solve() with the same result.
`pip install errorfeedback[mpi]` brings an MPI of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NoReturn, TypeVar, cast

from errorfeedback.clients.order import Setup
from errorfeedback.clients.serving import Host, host
from errorfeedback.clients.speaking import Speaker
from errorfeedback.engines.base import Engine, Session, Transport
from errorfeedback.engines.channel import end_job, receive
from errorfeedback.engines.conducting import conducted
from errorfeedback.engines.heartbeat import LEAST, heart
from errorfeedback.engines.remote import RemoteSession
from errorfeedback.engines.signals import Signals, passed_on
from errorfeedback.engines.watcher import Watcher
from errorfeedback.engines.world import World
from errorfeedback.extras import import_extra
from errorfeedback.problems.base import Problem
from errorfeedback.problems.conversation import Begin, Conversation, Seat
from errorfeedback.problems.spread import Spread

T = TypeVar("T")


@dataclass(frozen=True)
class MPI(Engine):
    """An engine over the ranks of the job that this process belongs to. On one rank it is `Local`.

    `timeout`: the job ends when a rank that others wait for has not been heard of for that many seconds. A rank that works
    is heard, however long its work takes.
    """

    timeout: float = 120.0

    def __post_init__(self) -> None:
        if not self.timeout >= LEAST:
            raise ValueError(f"timeout = {self.timeout}; it must be at least {LEAST:g} seconds")

    @cached_property
    def world(self) -> Any:
        world = import_extra("mpi4py.MPI", "ef.MPI").COMM_WORLD  # importing it starts MPI
        return World(world, heart(), self.timeout)

    @property
    def leads(self) -> bool:
        return bool(self.world.rank == 0)

    def converse(self, begin: Begin[T]) -> T:
        return self._conversed(Others(self.world, [f"rank {rank}" for rank in range(self.world.size)]), begin)

    def _conversed(self, others: Others, begin: Begin[T]) -> T:
        if self.leads:
            return conducted(others, self.world.size - 1, begin)
        speaker = Speaker(begin)
        answer(self.world, speaker)
        return speaker.result

    @contextmanager
    def guard(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if self.world.size > 1:
                end_job(self.world, f"rank {self.world.rank} failed: {type(error).__name__}: {error}")
            raise
        except SystemExit as end:
            raise SystemExit(1 if isinstance(end.code, str) else end.code) from end  # rank 0 says why, once

    def open(self, problem: Problem, setup: Setup) -> Session:
        world = self.world
        if world.size > problem.n:
            raise ValueError(f"{world.size} ranks, but there are only {problem.n} clients to share out")
        even = [problem.n * k // world.size for k in range(world.size + 1)]
        cuts = problem.cuts if isinstance(problem, Spread) else even
        names = [f"rank {rank} (clients {lo} to {hi - 1})" for rank, (lo, hi) in enumerate(pairwise(cuts))]
        if world.heart is not None:
            world.heart.called(names)
        mine, job = self._conversed(Others(world, names), lambda seat: _placed(problem, setup, cuts, seat))
        died = "died: it was killed or crashed; the last checkpoint, where there is one, goes on from there"
        watcher = Watcher(f"{names[world.rank]} {died}", job)
        if world.heart is not None:
            world.heart.before_end = watcher.quiet
        if self.leads:
            return RemoteSession(Others(world, names, watcher), problem, setup, cuts, mine.part)
        return cast(Session, Follower(world, mine, watcher))  # all it ever does is to carry


def _placed(problem: Problem, setup: Setup, cuts: Sequence[int], seat: Seat) -> Conversation[tuple[Host, str]]:
    """This rank's clients, ready for rounds; and a name that only this run has."""
    mine = host(problem, setup, cuts[seat.number], cuts[seat.number + 1])
    jobs = yield os.urandom(16).hex()
    return mine, jobs[0]


def answer(world: Any, asked: Speaker[Any] | Host) -> None:
    """Answer rank 0 until it has asked all."""
    while not asked.ended:
        world.Send(asked.serve(receive(world, 0)), 0)


class Others(Transport):
    """Rank 0's way to all other ranks."""

    def __init__(self, world: Any, names: list[str], watcher: Watcher | None = None) -> None:
        self.world, self.names, self.watcher = world, names, watcher
        self.signals = Signals(world.heart)
        self.sent: list[Any] = []

    def running(self) -> AbstractContextManager[None]:
        return self.signals.listening()

    def before_round(self) -> None:
        self.signals.check()

    def send(self, requests: list[bytes]) -> None:
        self.sent = [self.world.Isend(request, rank) for rank, request in enumerate(requests, 1)]

    def receive(self) -> list[bytes]:
        answers = [receive(self.world, rank) for rank in range(1, self.world.size)]
        for request in self.sent:  # it was answered
            self.world.until(request.Test)
        return answers

    def name(self, host: int) -> str:
        return self.names[host + 1]

    def fail(self, host: int, reason: str) -> NoReturn:
        self.failing()
        end_job(self.world, f"{self.name(host)} failed: {reason}")
        raise RuntimeError(reason)

    def failing(self) -> None:
        if self.watcher is not None:
            self.watcher.quiet()

    def close(self) -> None:
        if self.watcher is not None:
            self.watcher.done()


class Follower:
    """The session of the other ranks: they answer rank 0 until the run ends, and return with its result."""

    notes: tuple[str, ...] = ()

    def __init__(self, world: Any, host: Host, watcher: Watcher) -> None:
        self.world, self.host, self.watcher = world, host, watcher

    def carry(self, job: Callable[[], T]) -> T:
        with passed_on(self.world.heart):
            answer(self.world, self.host)
        if self.host.reason:
            code = self.host.code
            raise SystemExit(code if code != 1 else f"rank 0 ended the run: {self.host.reason}")
        return cast(T, self.host.result)

    def close(self) -> None:
        self.watcher.done()
        self.host.part.close()
