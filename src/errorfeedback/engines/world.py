"""The ranks of the job as the engine sees them: mpi4py's communicator, where every wait is under the eyes of the heart."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from time import sleep
from typing import Any

from errorfeedback.engines.heartbeat import Heart

try:
    from os import sched_yield as let_others
except ImportError:  # a system without it

    def let_others() -> None:
        """Give the core to whoever waits for it."""
        sleep(0)


SPINS = 50
"""Looks at the network before a waiting rank lets go of its core."""


class World:
    """A communicator; nobody in it waits for a rank that has been silent for `timeout` seconds."""

    def __init__(self, world: Any, heart: Heart | None, timeout: float) -> None:
        self.heart, self.timeout = heart, timeout
        self.rank, self.size = int(world.rank), int(world.size)
        self.Isend, self.Iprobe, self.Allreduce, self.Abort = world.Isend, world.Iprobe, world.Allreduce, world.Abort
        self._world = world

    def Send(self, buffer: Any, rank: int, tag: int = 0) -> None:
        with self._waiting():
            self._world.Send(buffer, rank, tag)

    def Recv(self, buffer: Any, rank: int) -> None:
        with self._waiting():
            self._world.Recv(buffer, rank)

    def until(self, true: Callable[[], bool]) -> None:
        """Wait: at full attention for a moment, and then so that others have the core, for ranks may share one."""
        for _ in range(SPINS):
            if true():
                return
        with self._waiting():
            while not true():
                let_others()

    def _waiting(self) -> AbstractContextManager[None]:
        return nullcontext() if self.heart is None else self.heart.waiting(self.timeout)
