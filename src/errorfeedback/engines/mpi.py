"""Shards on the ranks of an MPI job: `mpiexec -n 4 python train.py`, where the program calls solve(..., engine=ef.MPI()).

Rank 0 is the server and has a shard too. A round is one command with x down to each rank (`post`) and one answer from each,
the frames of `wire`, taken in client order. All other exchanges are packed arrays (`records.packing`); nothing is pickled.
Every rank returns from solve() with the same result. `pip install errorfeedback[mpi]` brings an MPI of its own.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from errorfeedback.compressors.base import Message, Operator
from errorfeedback.core import NOTHING, Ask, Model, PerClient, Round
from errorfeedback.engines.heartbeat import LEAST, heart
from errorfeedback.engines.post import Inbox, Outbox, broadcast, end_job, is_smaller, receive
from errorfeedback.engines.ranks import Ranks
from errorfeedback.engines.signals import Signals, passed_on
from errorfeedback.engines.watcher import Watcher
from errorfeedback.engines.wire import decode, decode_losses, encode, encode_losses
from errorfeedback.engines.world import World
from errorfeedback.extras import import_extra
from errorfeedback.methods.base import Method
from errorfeedback.problems.base import Problem
from errorfeedback.records.files import content, value_of
from errorfeedback.runtime.keeper import Interrupted
from errorfeedback.runtime.local import LocalSession, Session, joined, shards_for
from errorfeedback.runtime.memory import cut_memory, joined_memory
from errorfeedback.runtime.worker import Observation, workers

T = TypeVar("T")
FINE, FAILED = 0, 1
"""Tags of an answer."""
START, ROUND, OBSERVE, VALUES, MEMORY, RECALL, KEEP, RESTORE, DONE, CLOSE = range(10)


@dataclass(frozen=True)
class MPI:
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
    def together(self) -> Ranks:
        """The ranks, where each makes its own part of a problem."""
        return Ranks(self.world)

    @property
    def leads(self) -> bool:
        return bool(self.world.rank == 0)

    def open(self, problem: Problem, method: Method) -> Session:
        world = self.world
        if world.size > problem.n:
            raise ValueError(f"{world.size} ranks, but there are only {problem.n} clients to share out")
        cuts = problem.cuts or [problem.n * k // world.size for k in range(world.size + 1)]
        lo, hi = cuts[world.rank], cuts[world.rank + 1]
        who = f"rank {world.rank} (clients {lo} to {hi - 1})"
        try:
            part = LocalSession(workers(problem, method, lo, hi, shards_for(problem, hi - lo)))
        except Exception as error:  # the others would wait for this rank
            end_job(world, f"{who} failed: {type(error).__name__}: {error}")
            raise
        watcher = Watcher(f"{who} died: it was killed or crashed; the last checkpoint goes on from there", self._job())
        if world.heart is not None:
            world.heart.called(cuts)
            world.heart.before_end = watcher.quiet
        if self.leads:
            return Server(world, part, problem, method, cuts, watcher)
        return cast(Session, Follower(world, part, problem, method, cuts, who, watcher))  # all it ever does is to carry

    def _job(self) -> str:
        """A name that only this run has, known to all ranks."""
        token = np.frombuffer(os.urandom(16), dtype=np.uint8).copy()
        broadcast(self.world, token)
        return token.tobytes().hex()


def _owned(problem: Problem, cuts: list[int]) -> list[NDArray[np.int64]]:
    """The features of the clients of rank 1, 2, ...: what they need of x."""
    ends = problem.support.indptr[cuts[1:]]
    return [np.unique(problem.support.indices[a:b]).astype(np.int64) for a, b in pairwise(ends)]


class Server:
    """The session of rank 0."""

    def __init__(
        self, world: Any, part: LocalSession, problem: Problem, method: Method, cuts: list[int], watcher: Watcher
    ) -> None:
        self.world, self.part, self.cuts, self.watcher, self.method = world, part, cuts, watcher, method
        supports = [problem.support.shard(lo, hi) for lo, hi in pairwise(cuts[1:])]
        self.operators: list[Operator] = [method.compressor.on(support) for support in supports]
        """The others' compressors: to tell what they need not send."""
        self.support, self.dtype = problem.support, problem.dtype
        self.outbox = Outbox(world, _owned(problem, cuts), problem.d, problem.dtype)
        self.ctx = Round(0, 0)
        self.open, self.waiting = True, False
        self.signals = Signals(world.heart)

    def carry(self, job: Callable[[], T]) -> T:
        with self.signals.listening():
            result = job()
        self._tell(DONE, more=result)
        self.open = False
        return result

    def start(self, x: Model, ctx: Round) -> list[Message]:
        self.ctx = ctx
        self._tell(START, x)
        return self._messages(self.part.start(x, ctx), ctx)

    def round(self, x: Model, ctx: Round) -> list[Message]:
        self.signals.check()
        self.ctx = ctx
        self._tell(ROUND, x)
        return self._messages(self.part.round(x, ctx), ctx)

    def observe(self, x: Model, losses: bool = True) -> Observation:
        self._tell(OBSERVE, x, number=losses)
        return joined(self._answers(self.part.observe(x, losses)))

    def values(self, x: Model) -> PerClient:
        self._tell(VALUES, x)
        mine = self.part.values(x)
        others = zip(self._received(), self.operators, strict=True)
        return np.concatenate([mine, *(decode_losses(answer, each.support, self.ctx) for answer, each in others)])

    def memory(self) -> Any:
        self._tell(MEMORY)
        return joined_memory(self._answers(self.part.memory()))

    def recall(self, memory: Any) -> None:
        lengths = [(hi - lo, int(self.support.indptr[hi] - self.support.indptr[lo])) for lo, hi in pairwise(self.cuts)]
        mine, *others = cut_memory(memory, lengths)
        self._tell(RECALL)
        for rank, piece in enumerate(others, 1):
            self.world.Send(np.frombuffer(content(piece), dtype=np.uint8), rank)
        self.part.recall(mine)
        self._received()

    def keep(self) -> None:
        self._tell(KEEP)
        self.part.keep()
        self._received()

    def restore(self) -> None:
        self._tell(RESTORE)
        self.part.restore()
        self._received()

    def close(self) -> None:
        """Where the run did not end by itself the others are told why."""
        if self.open:
            error = sys.exception()
            self.watcher.quiet()
            if self.waiting:  # their answers to the last command
                self._received()
            code = error.code if isinstance(error, Interrupted) else 1
            self._tell(CLOSE, more=(code, f"{type(error).__name__}: {error}"))
            self.open = False
        self.watcher.done()
        self.part.close()

    def _tell(self, which: int, x: Model | None = None, more: Any = None, number: int = 0) -> None:
        packed = None if more is None else np.frombuffer(content(more), dtype=np.uint8)
        ctx = self.ctx
        self.outbox.send(x, which, ctx.t, ctx.seed, number if packed is None else len(packed), *_numbers(ctx.ask))
        self.waiting = True
        if packed is not None:
            broadcast(self.world, packed)

    def _messages(self, mine: list[Message], ctx: Round) -> list[Message]:
        """This rank's own messages, and the others' frames. A message costs what its frames do, also where it stays."""
        for answer, operator in zip(self._received(), self.operators, strict=True):
            agreed = self.method.agreed(operator, ctx)
            mine.append(decode(answer, agreed, operator.support, ctx, self.dtype))
        return mine

    def _answers(self, mine: T) -> list[T]:
        return [mine, *(value_of(answer.tobytes(), f"rank {rank}") for rank, answer in enumerate(self._received(), 1))]

    def _received(self) -> list[NDArray[np.uint8]]:
        """What the other ranks say to the last command."""
        answers = [receive(self.world, rank) for rank in range(1, self.world.size)]
        self.waiting = False
        for answer, tag in answers:
            if tag == FAILED:
                self._abort(answer.tobytes().decode())
        return [answer for answer, _ in answers]

    def _abort(self, reason: str) -> NoReturn:
        self.watcher.quiet()
        end_job(self.world, reason)
        raise RuntimeError(reason)


class Follower:
    """The session of the other ranks: they do what rank 0 says until the run ends, and return with its result."""

    def __init__(
        self,
        world: Any,
        part: LocalSession,
        problem: Problem,
        method: Method,
        cuts: list[int],
        who: str,
        watcher: Watcher,
    ) -> None:
        self.world, self.part, self.method, self.who, self.watcher = world, part, method, who, watcher
        self.first = cuts[world.rank]
        features = _owned(problem, cuts)
        parts = is_smaller(features, problem.d)
        self.inbox = Inbox(world, features[world.rank - 1], parts, problem.d, problem.dtype)

    def carry(self, job: Callable[[], T]) -> T:
        try:
            with passed_on(self.world.heart):
                return self._follow()
        except SystemExit:
            raise
        except BaseException as error:
            reason = f"{self.who} failed: {type(error).__name__}: {error}"
            self.world.Send(np.frombuffer(reason.encode(), dtype=np.uint8), 0, FAILED)
            signal.pause()  # rank 0 says it and ends the job
            raise

    def close(self) -> None:
        self.watcher.done()
        self.part.close()

    def _follow(self) -> Any:
        x = self.inbox.x
        while True:
            which, t, seed, number, *ask = self.inbox.receive()
            ctx = Round(t, seed, _ask(*ask))
            if which == ROUND:
                self.world.Send(self._frames(self.part.round(x, ctx), ctx), 0)
            elif which == START:
                self.world.Send(self._frames(self.part.start(x, ctx), ctx), 0)
            elif which == VALUES:
                self.world.Send(encode_losses(self.part.values(x), self.first, ctx), 0)
            elif which == DONE:
                return self._more(number)
            elif which == CLOSE:
                code, reason = self._more(number)
                raise SystemExit(code if code != 1 else f"rank 0 ended the run: {reason}")
            else:
                found = self._do(which, x, bool(number))
                packed = b"" if found is None else content(found)
                self.world.Send(np.frombuffer(packed, dtype=np.uint8), 0)

    def _frames(self, messages: list[Message], ctx: Round) -> NDArray[np.uint8]:
        """The shards' frames, one after the other."""
        packed = [
            encode(message, self.method.agreed(worker.compress, ctx), ctx)
            for message, worker in zip(messages, self.part.workers, strict=True)
        ]
        return packed[0] if len(packed) == 1 else np.concatenate(packed)

    def _do(self, which: int, x: Model, losses: bool) -> Any:
        if which == RECALL:
            return self.part.recall(value_of(receive(self.world, 0)[0].tobytes(), "rank 0"))
        return {
            OBSERVE: lambda: self.part.observe(x, losses),
            MEMORY: self.part.memory,
            KEEP: self.part.keep,
            RESTORE: self.part.restore,
        }[which]()

    def _more(self, length: int) -> Any:
        packed = np.empty(length, dtype=np.uint8)
        broadcast(self.world, packed)
        return value_of(packed.tobytes(), "rank 0")


@lru_cache
def _numbers(ask: Ask) -> tuple[int, ...]:
    return tuple(int(each) for each in astuple(ask))


@lru_cache
def _ask(G: int, sketch: int, full_gradient: int, slope: int, loss: int) -> Ask:
    ask = Ask(bool(G), sketch, bool(full_gradient), slope, loss)
    return ask if ask.numbers else NOTHING
