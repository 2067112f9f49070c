"""Engines carry shards. `Local` holds them in this process; their number changes nothing but the speed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from errorfeedback.compressors.base import Message
from errorfeedback.core import Model, PerClient, Round
from errorfeedback.methods.base import Method
from errorfeedback.problems.base import Problem
from errorfeedback.problems.together import ALONE, Together
from errorfeedback.runtime.memory import Lengths, cut_memory, joined_memory
from errorfeedback.runtime.worker import Observation, Worker, workers

T = TypeVar("T")
SHARD_WORK = 2**20
"""Numbers of data and memory of a shard: few enough to stay in cache between the steps of a round."""


class Engine(Protocol):
    """Where the shards live. Everything comes back in client order."""

    @property
    def leads(self) -> bool:
        """Whether this process is the server."""

    @property
    def together(self) -> Together:
        """The processes of the engine, where each makes its own part of a problem."""

    def open(self, problem: Problem, method: Method) -> Session:
        """Place the shards."""


class Session(Protocol):
    """Open shards of one run."""

    def carry(self, job: Callable[[], T]) -> T:
        """Do the server's job where the server is; its result is returned everywhere."""

    def start(self, x: Model, ctx: Round) -> list[Message]: ...

    def round(self, x: Model, ctx: Round) -> list[Message]: ...

    def observe(self, x: Model, losses: bool = True) -> Observation:
        """What a simulation may look at, at the x of this round."""

    def values(self, x: Model) -> PerClient: ...

    def keep(self) -> None:
        """Every client remembers its memory as it is now."""

    def restore(self) -> None:
        """Every client goes back to what it kept."""

    def memory(self) -> Any:
        """All clients' memory (`runtime.memory`)."""

    def recall(self, memory: Any) -> None:
        """Give the clients the memory that a session of any engine had."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Local:
    """All shards in this process, one after the other; by default as many as keep each within the cache."""

    shards: int | None = None
    leads: ClassVar[bool] = True
    together: ClassVar[Together] = ALONE

    def __post_init__(self) -> None:
        if self.shards is not None and self.shards < 1:
            raise ValueError(f"shards = {self.shards}; there must be at least 1")

    def open(self, problem: Problem, method: Method) -> LocalSession:
        count = shards_for(problem, problem.n) if self.shards is None else self.shards
        if count > problem.n:
            raise ValueError(f"shards = {count}, but there are only {problem.n} clients to put into them")
        return LocalSession(workers(problem, method, 0, problem.n, count))


@dataclass(frozen=True, eq=False)
class LocalSession:
    """Workers in client order."""

    workers: list[Worker]

    def carry(self, job: Callable[[], T]) -> T:
        return job()

    def start(self, x: Model, ctx: Round) -> list[Message]:
        return [worker.start(x, ctx) for worker in self.workers]

    def round(self, x: Model, ctx: Round) -> list[Message]:
        if len(self.workers) > 1:
            for worker in self.workers:
                worker.look(x)
        return [worker.round(x, ctx) for worker in self.workers]

    def observe(self, x: Model, losses: bool = True) -> Observation:
        return joined([worker.observe(x, losses) for worker in self.workers])

    def values(self, x: Model) -> PerClient:
        return np.concatenate([worker.values(x) for worker in self.workers])

    def keep(self) -> None:
        for worker in self.workers:
            worker.keep()

    def restore(self) -> None:
        for worker in self.workers:
            worker.restore()

    def memory(self) -> Any:
        return joined_memory([worker.memory for worker in self.workers])

    def recall(self, memory: Any) -> None:
        parts = cut_memory(memory, [worker.lengths for worker in self.workers])
        for worker, part in zip(self.workers, parts, strict=True):
            worker.memory = part

    @property
    def lengths(self) -> Lengths:
        clients, positions = zip(*(worker.lengths for worker in self.workers), strict=True)
        return sum(clients), sum(positions)

    def close(self) -> None:
        self.workers.clear()


def shards_for(problem: Problem, clients: int) -> int:
    """How many shards keep that many of the problem's clients within the cache."""
    work = problem.work * clients / problem.n
    return max(1, min(clients, round(work / SHARD_WORK)))


def joined(seen: list[Observation]) -> Observation:
    """What the shards see, in client order."""
    errors = [o.error for o in seen if o.error is not None]
    grads, values = (np.concatenate(parts) for parts in zip(*((o.grads, o.values) for o in seen), strict=True))
    return Observation(grads, np.concatenate(errors) if errors else None, values)
