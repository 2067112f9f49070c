"""Shards on the ranks of an MPI job: `mpiexec -n 4 python train.py`, where the program calls solve(..., engine=ef.MPI()).

Rank 0 is the server and has clients too. A round is one request to each of the others and one answer from each
(`engines.remote`, `clients.serving`); nothing is pickled. Every rank returns from solve() with the same result.
`pip install errorfeedback[mpi]` brings an MPI of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn, TypeVar, cast

import numpy as np

from errorfeedback.clients.order import Setup
from errorfeedback.clients.serving import Host, host
from errorfeedback.engines.base import Engine, Session, Transport
from errorfeedback.engines.channel import broadcast, end_job, receive
from errorfeedback.engines.heartbeat import LEAST, heart
from errorfeedback.engines.ranks import Ranks
from errorfeedback.engines.remote import RemoteSession
from errorfeedback.engines.signals import Signals, passed_on
from errorfeedback.engines.watcher import Watcher
from errorfeedback.engines.world import World
from errorfeedback.extras import import_extra
from errorfeedback.problems.base import Problem
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
    def processes(self) -> Ranks:
        """The ranks, where each makes its own part of a problem."""
        return Ranks(self.world)

    @property
    def leads(self) -> bool:
        return bool(self.world.rank == 0)

    def open(self, problem: Problem, setup: Setup) -> Session:
        world = self.world
        if world.size > problem.n:
            raise ValueError(f"{world.size} ranks, but there are only {problem.n} clients to share out")
        even = [problem.n * k // world.size for k in range(world.size + 1)]
        cuts = problem.cuts if isinstance(problem, Spread) else even
        lo, hi = cuts[world.rank], cuts[world.rank + 1]
        who = f"rank {world.rank} (clients {lo} to {hi - 1})"
        try:
            mine = host(problem, setup, lo, hi)
        except Exception as error:  # the others would wait for this rank
            end_job(world, f"{who} failed: {type(error).__name__}: {error}")
            raise
        watcher = Watcher(
            f"{who} died: it was killed or crashed; the last checkpoint, where there is one, goes on from there", self._job()
        )
        if world.heart is not None:
            world.heart.called(cuts)
            world.heart.before_end = watcher.quiet
        if self.leads:
            return RemoteSession(Others(world, cuts, watcher), problem, setup, cuts, mine.part)
        return cast(Session, Follower(world, mine, watcher))  # all it ever does is to carry

    def _job(self) -> str:
        """A name that only this run has, known to all ranks."""
        token = np.frombuffer(os.urandom(16), dtype=np.uint8).copy()
        broadcast(self.world, token)
        return token.tobytes().hex()


class Others(Transport):
    """Rank 0's way to all other ranks."""

    def __init__(self, world: Any, cuts: list[int], watcher: Watcher) -> None:
        self.world, self.cuts, self.watcher = world, cuts, watcher
        self.signals = Signals(world.heart)
        self.sent: list[Any] = []

    def running(self) -> AbstractContextManager[None]:
        return self.signals.listening()

    def before_round(self) -> None:
        self.signals.check()

    def send(self, requests: list[bytes]) -> None:
        for before in self.sent:  # was answered long ago
            self.world.until(before.Test)
        self.sent = [self.world.Isend(request, rank) for rank, request in enumerate(requests, 1)]

    def receive(self) -> list[bytes]:
        return [receive(self.world, rank) for rank in range(1, self.world.size)]

    def name(self, host: int) -> str:
        return f"rank {host + 1} (clients {self.cuts[host + 1]} to {self.cuts[host + 2] - 1})"

    def fail(self, host: int, reason: str) -> NoReturn:
        self.watcher.quiet()
        end_job(self.world, f"{self.name(host)} failed: {reason}")
        raise RuntimeError(reason)

    def failing(self) -> None:
        self.watcher.quiet()

    def close(self) -> None:
        self.watcher.done()


class Follower:
    """The session of the other ranks: they answer rank 0 until the run ends, and return with its result."""

    def __init__(self, world: Any, host: Host, watcher: Watcher) -> None:
        self.world, self.host, self.watcher = world, host, watcher

    def carry(self, job: Callable[[], T]) -> T:
        with passed_on(self.world.heart):
            while not self.host.ended:
                self.world.Send(self.host.serve(receive(self.world, 0)), 0)
        if self.host.reason:
            code = self.host.code
            raise SystemExit(code if code != 1 else f"rank 0 ended the run: {self.host.reason}")
        return cast(T, self.host.result)

    def close(self) -> None:
        self.watcher.done()
        self.host.part.close()
