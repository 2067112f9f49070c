"""Engines carry shards. `Local` holds them in this process; more than one shard changes nothing but the memory layout."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np

from errorfeedback.compressors.base import Message
from errorfeedback.core import Floats, Model, PerClient, Round
from errorfeedback.methods.base import Method
from errorfeedback.problems.base import Problem
from errorfeedback.runtime.worker import Observation, Worker
from errorfeedback.stepsizes.base import Ask


class Engine(Protocol):
    """Where the shards live. Everything comes back in client order."""

    def open(self, problem: Problem, method: Method) -> Session:
        """Place the shards."""


class Session(Protocol):
    """Open shards of one run."""

    def start(self, x: Model, ctx: Round) -> list[Message]: ...

    def round(self, x: Model, ctx: Round) -> list[Message]: ...

    def telemetry(self, ask: Ask, ctx: Round) -> Floats:
        """(n, ask.numbers): what every client tells in this round beyond its message."""

    def observe(self) -> Observation: ...

    def values(self, x: Model) -> PerClient: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Local:
    """All shards in this process, one after the other."""

    shards: int = 1

    def __post_init__(self) -> None:
        if self.shards < 1:
            raise ValueError(f"shards = {self.shards}; there must be at least 1")

    def open(self, problem: Problem, method: Method) -> LocalSession:
        if self.shards > problem.n:
            raise ValueError(f"shards = {self.shards}, but there are only {problem.n} clients to put into them")
        if self.shards == 1:
            return LocalSession([Worker(problem, method)])
        ends = [problem.n * k // self.shards for k in range(self.shards + 1)]
        return LocalSession([Worker(problem.shard(lo, hi), method) for lo, hi in pairwise(ends)])


@dataclass(eq=False)
class LocalSession:
    """Workers in client order."""

    workers: list[Worker] = field(default_factory=list)

    def start(self, x: Model, ctx: Round) -> list[Message]:
        return [worker.start(x, ctx) for worker in self.workers]

    def round(self, x: Model, ctx: Round) -> list[Message]:
        return [worker.round(x, ctx) for worker in self.workers]

    def telemetry(self, ask: Ask, ctx: Round) -> Floats:
        return np.concatenate([worker.telemetry(ask, ctx) for worker in self.workers])

    def observe(self) -> Observation:
        seen = [worker.observe() for worker in self.workers]
        errors = [o.error for o in seen if o.error is not None]
        return Observation(np.concatenate([o.grads for o in seen]), np.concatenate(errors) if errors else None)

    def values(self, x: Model) -> PerClient:
        return np.concatenate([worker.values(x) for worker in self.workers])

    def close(self) -> None:
        self.workers.clear()
