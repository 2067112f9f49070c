"""`Local`: all shards in this process."""

from __future__ import annotations

from dataclasses import dataclass

from errorfeedback.clients.order import Setup
from errorfeedback.clients.shard import shards_of
from errorfeedback.clients.shards import LocalSession, shards_for
from errorfeedback.engines.base import Engine
from errorfeedback.problems.base import Problem


@dataclass(frozen=True)
class Local(Engine):
    """All shards in this process, one after the other; by default as many as keep each within the cache."""

    shards: int | None = None
    """Into how many parts the clients are cut."""

    def __post_init__(self) -> None:
        if self.shards is not None and self.shards < 1:
            raise ValueError(f"shards = {self.shards}; there must be at least 1")

    def open(self, problem: Problem, setup: Setup) -> LocalSession:
        count = shards_for(problem, problem.n) if self.shards is None else self.shards
        if count > problem.n:
            raise ValueError(f"shards = {count}, but there are only {problem.n} clients to put into them")
        return LocalSession(shards_of(problem, setup, 0, problem.n, count))
