"""Shards in client order, one after the other in this process; their number changes nothing but the speed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from errorfeedback.clients.memory import Lengths, cut_memory, joined_memory
from errorfeedback.clients.order import Order, Place
from errorfeedback.clients.shard import Observation, Shard
from errorfeedback.core import Lifted, Model, PerClient
from errorfeedback.problems.base import Problem
from errorfeedback.wire.message import Message

T = TypeVar("T")
SHARD_WORK = 2**20
"""Numbers of data and memory of a shard: few enough to stay in cache between the steps of a round."""


@dataclass(frozen=True, eq=False)
class LocalSession:
    """Shards in client order."""

    shards: list[Shard]
    notes: tuple[str, ...] = ()

    def carry(self, job: Callable[[], T]) -> T:
        return job()

    def round(self, order: Order) -> list[Message]:
        if len(self.shards) > 1:
            for shard in self.shards:
                shard.node.read_ahead(order.x)
        return [shard.round(order) for shard in self.shards]

    def observe(self, x: Model, losses: bool = True) -> Observation:
        return joined([shard.observe(x, losses) for shard in self.shards])

    def values(self, x: Model, kept: bool = False) -> PerClient:
        return PerClient(np.concatenate([shard.values(x) for shard in self.shards]))

    def memory(self) -> Any:
        return joined_memory([shard.memory for shard in self.shards])

    def recall(self, memory: Any, here: Place, kept: Place | None) -> None:
        for shard, part in zip(self.shards, cut_memory(memory, [s.lengths for s in self.shards]), strict=True):
            shard.memory = part

    @property
    def lengths(self) -> Lengths:
        clients, positions = zip(*(shard.lengths for shard in self.shards), strict=True)
        return sum(clients), sum(positions)

    def close(self) -> None:
        self.shards.clear()


def shards_for(problem: Problem, clients: int) -> int:
    """How many shards keep that many of the problem's clients within the cache."""
    work = problem.work * clients / problem.n
    return max(1, min(clients, round(work / SHARD_WORK)))


def joined(seen: list[Observation]) -> Observation:
    """What the shards see, in client order."""
    errors = [o.error for o in seen if o.error is not None]
    grads, values = (np.concatenate(parts) for parts in zip(*((o.grads, o.values) for o in seen), strict=True))
    return Observation(Lifted(grads), Lifted(np.concatenate(errors)) if errors else None, PerClient(values))
