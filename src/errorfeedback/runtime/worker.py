"""The client side of a round, for all clients of a shard at once."""

from __future__ import annotations

import logging
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from threading import Timer
from typing import Any

import numpy as np

from errorfeedback.compressors.base import Message
from errorfeedback.compressors.short import shortened
from errorfeedback.core import NOTHING, Floats, Lifted, Model, PerClient, Round
from errorfeedback.methods.base import Method
from errorfeedback.problems.base import Problem
from errorfeedback.runtime.memory import Lengths
from errorfeedback.runtime.sketch import sketches


@dataclass(frozen=True, eq=False)
class Observation:
    """What a simulation can look at, over the clients of a shard: never on a wire, never timed."""

    grads: Lifted
    error: Lifted | None
    """g_i - grad f_i(x), where the method has g_i."""
    values: PerClient
    """f_i(x); nan where nobody asked for it."""


NOTICE_AFTER = 0.5
NOTICE = "compiling the kernels for this kind of problem (they are kept for the next time where a folder can be written)"


class Worker:
    """A shard: its data, its clients' memory, and their part of the method. `scratch` may be shared with other shards."""

    def __init__(self, problem: Problem, method: Method, scratch: Floats) -> None:
        self.problem, self.method = problem, method
        self.compress = method.compressor.on(problem.support)
        self.grads = scratch[: problem.support.size]
        self.state: Any = None
        self.kept: Any = None
        self.here = np.zeros(0)
        self.looked = False
        self.now: Lifted | None = None  # the gradients of this round, where its telemetry needs them
        self.slopes, self.losses = np.zeros((2, problem.n))
        problem.gradients(np.zeros(problem.d, dtype=problem.dtype), self.grads)  # builds the layout before the clock runs

    def start(self, x: Model, ctx: Round) -> Message:
        """Round 0."""
        self.problem.gradients(x, self.grads, self.losses if ctx.ask.loss else None)
        if ctx.ask.slope:
            self.here = self.problem.support.gather(x)
        self.now = self.grads.copy() if ctx.ask.errors else None  # a method may overwrite the gradients
        message, self.state = self.method.init(self.grads, self.compress, ctx)
        return self._telling(message, x, ctx)

    def look(self, x: Model) -> None:
        """Read x ahead of `round`, where that pays."""
        self.looked = self.problem.look(x, self.grads)

    def round(self, x: Model, ctx: Round) -> Message:
        """A later round."""
        if ctx.ask is NOTHING:
            self.problem.gradients(x, self.grads, None, self.looked)
            message, self.state = self.method.client(self.state, self.grads, self.compress, ctx)
            return message
        self.problem.gradients(x, self.grads, self.losses if ctx.ask.loss else None, self.looked)
        if ctx.ask.slope:
            last, self.here = self.here, self.problem.support.gather(x)
            error = self.method.error(self.state, self.grads)
            unknown = self.grads if error is None else -error
            self.slopes = self.problem.support.sums(unknown * (self.here - last))
        self.now = self.grads.copy() if ctx.ask.errors else None  # a method may overwrite the gradients
        message, self.state = self.method.client(self.state, self.grads, self.compress, ctx)
        return self._telling(message, x, ctx)

    def keep(self) -> None:
        """Remember the clients' memory."""
        self.kept = deepcopy(self.state)

    def restore(self) -> None:
        """Go back to what was kept."""
        self.state = deepcopy(self.kept)

    def _telling(self, message: Message, x: Model, ctx: Round) -> Message:
        """The message with what was asked for: e_i, f_i, G_i and the sketch of g_i - grad f_i(x), in this order."""
        ask = ctx.ask
        if not ask.numbers:
            return message
        told: list[Floats] = []
        if ask.slope:
            told.append(shortened(self.slopes, ask.slope)[:, None])
        if ask.loss:
            told.append(shortened(self.losses, ask.loss)[:, None])
        if ask.G or ask.sketch:
            told += self._errors(x, ctx)
        message.told = np.hstack(told)
        return message

    def _errors(self, x: Model, ctx: Round) -> list[Floats]:
        support, error = self.problem.support, self.observe(x, losses=False).error
        assert error is not None, "rules that ask for errors are for methods with gradient estimates"
        told = [support.norms2(error)[:, None]] * ctx.ask.G
        if ctx.ask.sketch:
            told.append(sketches(error, support, ctx.ask.sketch, ctx))
        return [numbers.astype(self.problem.dtype).astype(np.float64) for numbers in told]

    @property
    def memory(self) -> Any:
        """All that the clients' later rounds depend on."""
        return self.state, self.kept, self.here, self.slopes

    @memory.setter
    def memory(self, memory: Any) -> None:
        self.state, self.kept, self.here, self.slopes = memory

    @property
    def lengths(self) -> Lengths:
        return self.problem.n, self.problem.support.size

    def observe(self, x: Model, losses: bool = True) -> Observation:
        """The gradients at x of this round, how far the clients' estimates are from them, and the losses there."""
        values, grads = np.full(self.problem.n, np.nan), self.now
        if losses or grads is None:
            grads = self.problem.gradients(x, values=values if losses else None)
        return Observation(grads, self.method.error(self.state, grads), values)

    def values(self, x: Model) -> PerClient:
        """f_i(x)."""
        return self.problem.values(x)


def workers(problem: Problem, method: Method, lo: int, hi: int, count: int) -> list[Worker]:
    """The clients lo, ..., hi - 1 in `count` shards that take turns on one scratch vector."""
    ends = [lo + (hi - lo) * k // count for k in range(count + 1)]
    _compile(problem.shard(lo, lo + 1), method)
    whole = (lo, hi, count) == (0, problem.n, 1) and problem.cuts is None
    parts = [problem] if whole else [problem.shard(a, b) for a, b in pairwise(ends)]
    scratch = np.empty(max(part.support.size for part in parts), dtype=problem.dtype)
    return [Worker(part, method, scratch) for part in parts]


def _compile(problem: Problem, method: Method) -> None:
    """Two rounds of one client, so that no kernel is compiled while the clock runs; says so when it takes a moment."""
    notice = Timer(NOTICE_AFTER, logging.getLogger("errorfeedback").warning, [NOTICE])
    notice.start()
    try:
        worker = Worker(problem, method, np.empty(problem.support.size, dtype=problem.dtype))
        x = np.zeros(problem.d, dtype=problem.dtype)
        worker.start(x, Round(0, 0))
        worker.round(x, Round(1, 0))
    finally:
        notice.cancel()
