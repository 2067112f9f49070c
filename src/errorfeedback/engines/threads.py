"""Shards on threads of this process: the kernels release the interpreter's lock, so that they run side by side.

The caller's thread takes the first part of the clients, the others take the rest; messages are put in client order, so the
number of threads changes no bit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, pairwise
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

import numba
import numpy as np
from numba import types

from errorfeedback.clients.memory import cut_memory, joined_memory
from errorfeedback.clients.order import Order, Place, Setup
from errorfeedback.clients.shard import Observation, shards_of
from errorfeedback.clients.shards import LocalSession, joined, shards_for
from errorfeedback.core import Integers, Model, PerClient
from errorfeedback.engines.base import Engine
from errorfeedback.problems.base import Problem
from errorfeedback.wire.message import Message

T = TypeVar("T")
SPINS_BEFORE_SLEEP = 2000
"""Looks at the other thread before a waiting one goes to sleep: waking it up takes longer than a short round."""
LEAD = 12
"""Looks away before a job is taken: by then the thread that gave it is in its own first kernel and has let the interpreter's
lock go. Waiting for that lock would be going to sleep."""
_let_others = types.ExternalFunction("SwitchToThread" if sys.platform == "win32" else "sched_yield", types.intc())


@dataclass(frozen=True)
class Threads(Engine):
    """An engine of that many threads.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> method, rule = ef.EF21(ef.TopK(1)), ef.RareFeatures()
    >>> one, two = (ef.solve(problem, method, rule, rounds=50, engine=ef.Threads(k)) for k in (1, 2))
    >>> bool((one.x == two.x).all())
    True
    """

    count: int = 2
    """Threads."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"count = {self.count}; there must be at least 1 thread")

    def open(self, problem: Problem, setup: Setup) -> ThreadsSession:
        if self.count > problem.n:
            raise ValueError(f"count = {self.count} threads, but there are only {problem.n} clients to share out")
        ends = np.searchsorted(_work_before(problem), np.linspace(0, 1, self.count + 1)[1:-1] * problem.work)
        cuts = _strictly_between([int(e) for e in ends], problem.n)
        sizes = [(lo, hi, shards_for(problem, hi - lo)) for lo, hi in pairwise(cuts)]
        return ThreadsSession([LocalSession(shards_of(problem, setup, *size)) for size in sizes])


class ThreadsSession:
    """One part per thread; the first belongs to the caller."""

    notes: tuple[str, ...] = ()

    def __init__(self, parts: list[LocalSession]) -> None:
        self._parts = parts
        self._mine, *rest = parts
        self._others = [_Helper(part) for part in rest]

    def carry(self, job: Callable[[], T]) -> T:
        return job()

    def round(self, order: Order) -> list[Message]:
        return list(chain(*self._each(lambda part: part.round(order))))

    def observe(self, x: Model, losses: bool = True) -> Observation:
        return joined(self._each(lambda part: part.observe(x, losses)))

    def values(self, x: Model, kept: bool = False) -> PerClient:
        return PerClient(np.concatenate(self._each(lambda part: part.values(x))))

    def memory(self) -> Any:
        return joined_memory([part.memory() for part in self._parts])

    def recall(self, memory: Any, here: Place, kept: Place | None) -> None:
        for part, piece in zip(self._parts, cut_memory(memory, [part.lengths for part in self._parts]), strict=True):
            part.recall(piece, here, kept)

    def close(self) -> None:
        for helper in self._others:
            helper.stop()
        self._mine.close()

    def _each(self, job: Callable[[LocalSession], T]) -> list[T]:
        for helper in self._others:
            helper.ask(job)
        try:
            mine = [job(self._mine)]
        finally:
            answers = [helper.answer() for helper in self._others]  # also after an error: no part may still be at work
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return mine + answers


class _Helper:
    """A thread that does jobs on its part, one at a time."""

    def __init__(self, part: LocalSession) -> None:
        self._part = part
        self._jobs: SimpleQueue[Callable[[LocalSession], Any] | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[int, Any]] = SimpleQueue()
        # answers and jobs so far, each in a cache line of its own: what the other side looks at
        self._answered, self._asked = np.zeros((2, 8), dtype=np.int64)
        _wait_for(self._answered, 0, self._answered, 0, 0)  # compiled before the clock runs
        self._thread = Thread(target=self._loop, name="errorfeedback", daemon=True)
        self._thread.start()

    def ask(self, job: Callable[[LocalSession], Any] | None) -> None:
        self._jobs.put(job)
        self._asked[0] += 1

    def answer(self) -> Any:
        asked = self._asked[0]
        _wait_for(self._asked, asked, self._answered, asked, 0)
        while (latest := self._answers.get())[0] < asked:  # left over, where waiting for it was interrupted
            pass
        return latest[1]

    def stop(self) -> None:
        self.ask(None)
        self._thread.join()
        self._part.close()

    def _loop(self) -> None:
        with np.errstate(over="ignore", invalid="ignore"):  # as in solve(): a thread has its own
            done = 0
            while (job := self._job(done)) is not None:
                try:
                    answer = job(self._part)
                except BaseException as error:  # raised again in the caller's thread
                    answer = error
                done += 1
                self._answers.put((done, answer))

    def _job(self, done: int) -> Callable[[LocalSession], Any] | None:
        _wait_for(self._answered, done, self._asked, done + 1, LEAD)
        return self._jobs.get()


def _work_before(problem: Problem) -> np.ndarray[Any, Any]:
    """An estimate of the work of the clients before each one: proportional to the length of their segments."""
    return problem.support.indptr[:-1] * (problem.work / problem.support.size)


def _strictly_between(ends: list[int], n: int) -> list[int]:
    """0, the cuts, n, moved apart where they would leave a part without clients."""
    cuts = [0]
    for k, end in enumerate(ends):
        cuts.append(min(max(end, cuts[-1] + 1), n - (len(ends) - k)))
    return [*cuts, n]


@numba.njit(cache=True, nogil=True)
def _wait_for(mine: Integers, number: int, others: Integers, expected: int, lead: int) -> None:
    """Show the own number (here, without the interpreter's lock: the other thread need not wait for it), and look at the
    other's until it is as expected, or SPINS_BEFORE_SLEEP times; others may have the core in between."""
    mine[0] = number
    for _ in range(SPINS_BEFORE_SLEEP):
        if others[0] >= expected:
            break
        _let_others()
    for _ in range(lead):
        _let_others()
