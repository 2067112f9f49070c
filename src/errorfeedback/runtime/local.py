"""Engines carry shards. `Local` holds them in this process; their number changes nothing but the speed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np

from errorfeedback.core import Model, PerClient, Round
from errorfeedback.downlinks.base import Broadcast, Downlink
from errorfeedback.methods.base import Method
from errorfeedback.probes.base import Probes
from errorfeedback.problems.base import Problem
from errorfeedback.problems.process_group import SINGLE, ProcessGroup
from errorfeedback.runtime.memory import Lengths, cut_memory, joined_memory
from errorfeedback.runtime.shard import Observation, Shard, shards_of
from errorfeedback.stepsizes.base import Verdict
from errorfeedback.wire.message import Message

T = TypeVar("T")
SHARD_WORK = 2**20
"""Numbers of data and memory of a shard: few enough to stay in cache between the steps of a round."""


@dataclass(frozen=True, eq=False)
class Setup:
    """What clients and server know of a run before round 0."""

    method: Method
    downlink: Downlink
    x: Model
    """(d,): the first x."""
    commands: bool
    """Clients are told in every round what to do with their memory."""


Place: TypeAlias = tuple[Model, Any]
"""A point, and the memory of the downlink there."""


@dataclass(slots=True, eq=False)
class Order:
    """What the server says in a round. Engines within one process hand out `x`, the others send `told`: it leads there."""

    ctx: Round
    x: Model
    told: Broadcast | None
    """None: nobody has moved, or everybody goes back to the point that was kept."""
    probes: Probes = ()
    verdict: Verdict = Verdict.GO
    """What is to be done first with the memory that the last round left."""


class Engine(ABC):
    """Where the shards live. Everything comes back in client order."""

    @property
    def leads(self) -> bool:
        """Whether this process is the server."""
        return True

    @property
    def processes(self) -> ProcessGroup:
        """The processes of the engine, where each makes its own part of a problem."""
        return SINGLE

    @abstractmethod
    def open(self, problem: Problem, setup: Setup) -> Session:
        """Place the shards."""


class Session(Protocol):
    """Open shards of one run."""

    def carry(self, job: Callable[[], T]) -> T:
        """Do the server's job where the server is; its result is returned everywhere."""

    def round(self, order: Order) -> list[Message]: ...

    def observe(self, x: Model, losses: bool = True) -> Observation:
        """What a simulation may look at, at the x of this round."""

    def values(self, x: Model, kept: bool = False) -> PerClient:
        """f_i at x, which is where the clients are, or the point that they kept."""

    def memory(self) -> Any:
        """All clients' memory (`runtime.memory`)."""

    def recall(self, memory: Any, here: Place, kept: Place | None) -> None:
        """Give the clients the memory that a session of any engine had, and bring them where the server is."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Local(Engine):
    """All shards in this process, one after the other; by default as many as keep each within the cache."""

    shards: int | None = None

    def __post_init__(self) -> None:
        if self.shards is not None and self.shards < 1:
            raise ValueError(f"shards = {self.shards}; there must be at least 1")

    def open(self, problem: Problem, setup: Setup) -> LocalSession:
        count = shards_for(problem, problem.n) if self.shards is None else self.shards
        if count > problem.n:
            raise ValueError(f"shards = {count}, but there are only {problem.n} clients to put into them")
        return LocalSession(shards_of(problem, setup.method, setup.x, 0, problem.n, count))


@dataclass(frozen=True, eq=False)
class LocalSession:
    """Shards in client order."""

    shards: list[Shard]

    def carry(self, job: Callable[[], T]) -> T:
        return job()

    def round(self, order: Order) -> list[Message]:
        if len(self.shards) > 1:
            for shard in self.shards:
                shard.node.read_ahead(order.x)
        return [shard.round(order.x, order.ctx, order.probes, order.verdict) for shard in self.shards]

    def observe(self, x: Model, losses: bool = True) -> Observation:
        return joined([shard.observe(x, losses) for shard in self.shards])

    def values(self, x: Model, kept: bool = False) -> PerClient:
        return np.concatenate([shard.values(x) for shard in self.shards])

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
    return Observation(grads, np.concatenate(errors) if errors else None, values)
