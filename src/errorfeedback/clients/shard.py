"""A shard: some clients, their data and memory, and their part of a round, for all of them at once."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from itertools import pairwise
from threading import Timer
from typing import Any

import numpy as np

from errorfeedback.clients.bending import Bending
from errorfeedback.clients.memory import Lengths, copied, lengths_of
from errorfeedback.clients.order import Order, Setup
from errorfeedback.core import Floats, Lifted, Model, PerClient, Point, Round
from errorfeedback.directions.base import Asking
from errorfeedback.methods.base import Method
from errorfeedback.methods.node import Node
from errorfeedback.probes.base import Probe, Probes, cut
from errorfeedback.problems.base import Problem
from errorfeedback.problems.spread import Spread
from errorfeedback.stepsizes.base import Verdict
from errorfeedback.wire.message import Message


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


class Shard:
    """The clients' side of a run. `scratch` may be shared with other shards."""

    def __init__(self, problem: Problem, method: Method, scratch: Lifted, curvature: Asking | None = None) -> None:
        self.problem, self.method = problem, method
        self.bending = None if curvature is None else Bending(problem, curvature)
        self.node = Node(problem, method.compressor.on(problem.support), scratch)
        self.node.judge = lambda grads: self.method.error(self.state, grads)
        self.state: Any = None
        self.kept: Any = None
        self.notes: dict[str, Any] = {}
        """The probes' memory, by the name of their class."""
        self.value_bits = 8 * problem.dtype.itemsize

    def round(self, order: Order) -> Message:
        """What the clients send from x."""
        if order.verdict is not Verdict.GO:
            self.obey(order.verdict)
        if order.probes:
            message = self._asked(order.x, order.ctx, order.probes)
        else:
            self.node.stand(order.x)
            message = self._message(order.ctx)
        if order.curvature:
            assert self.bending is not None, "a run that asks for curvature says so before round 0"
            message.curvature = self.bending.message(self.node.at, order.ctx, order.finely)
        return message

    def _asked(self, x: Model, ctx: Round, probes: Probes) -> Message:
        """The message, with what the probes ask for."""
        node = self.node
        node.stand(x, any(probe.wants_values for probe in probes))
        numbers = {probe: self._answer(probe, ctx) for probe in probes if not probe.of_new_memory}
        if len(numbers) < len(probes):
            node.keep_gradients()
        message = self._message(ctx)
        numbers |= {probe: self._answer(probe, ctx) for probe in probes if probe.of_new_memory}
        message.telemetry = np.hstack([numbers[probe] for probe in probes])
        return message

    def _message(self, ctx: Round) -> Message:
        if ctx.t == 0:
            message, self.state = self.method.init(self.node, ctx)
        else:
            message, self.state = self.method.client(self.state, self.node, ctx)
        return message

    def _answer(self, probe: Probe, ctx: Round) -> Floats:
        name = type(probe).__name__
        numbers, self.notes[name] = probe.tell(self.notes.get(name), self.node, ctx)
        widths = probe.widths(self.value_bits)
        return cut(numbers, widths) if widths else numbers

    def obey(self, verdict: Verdict) -> None:
        """Remember the clients' memory, or go back to what was kept."""
        if verdict is Verdict.KEEP:
            self.kept = copied(self.state, self.kept)
        elif verdict.goes_back:
            self.state = copied(self.kept, self.state)

    @property
    def memory(self) -> Any:
        """All that the clients' later rounds depend on."""
        return self.state, self.kept, self.notes, None if self.bending is None else self.bending.estimate

    @memory.setter
    def memory(self, memory: Any) -> None:
        self.state, self.kept, self.notes, estimate = memory
        if self.bending is not None:
            self.bending.estimate = estimate

    @property
    def lengths(self) -> Lengths:
        return lengths_of(self.problem.support)

    def observe(self, x: Model, losses: bool = True) -> Observation:
        """The gradients at x of this round, how far the clients' estimates are from them, and the losses there."""
        values = PerClient(np.full(self.problem.n, np.nan))
        if losses:
            grads = Lifted(np.empty(self.problem.support.size, dtype=self.problem.dtype))
            self.problem.gradients(Point(x), grads, values=values)
        else:
            grads = self.node.peek()
        return Observation(grads, self.method.error(self.state, grads), values)

    def values(self, x: Model) -> PerClient:
        """f_i(x)."""
        return self.problem.values(Point(x))


def shards_of(problem: Problem, setup: Setup, lo: int, hi: int, count: int) -> list[Shard]:
    """The clients lo, ..., hi - 1 in `count` shards that take turns on one scratch vector, ready for rounds."""
    ends = [lo + (hi - lo) * k // count for k in range(count + 1)]
    method, x, curvature = setup.method, setup.x, setup.curvature
    _compile(problem.shard(lo, lo + 1), method, x, None if curvature is None else replace(curvature, clients=None))
    whole = (lo, hi, count) == (0, problem.n, 1) and not isinstance(problem, Spread)
    parts = [problem] if whole else [problem.shard(a, b) for a, b in pairwise(ends)]
    scratch = Lifted(np.empty(max(part.support.size for part in parts), dtype=problem.dtype))
    shards = [Shard(part, method, scratch, curvature) for part in parts]
    for shard in shards:  # their data are laid out before the clock runs
        shard.node.stand(x)
        shard.node.gradients()
    return shards


def _compile(problem: Problem, method: Method, x: Model, curvature: Asking | None) -> None:
    """Two rounds of one client, so that no kernel is compiled while the clock runs; says so when it takes a moment."""
    notice = Timer(NOTICE_AFTER, logging.getLogger("errorfeedback").warning, [NOTICE])
    notice.start()
    try:
        shard = Shard(problem, method, Lifted(np.empty(problem.support.size, dtype=problem.dtype)), curvature)
        shard.round(Order(Round(0, 0), x, None, curvature=curvature is not None))
        finer = curvature is not None and curvature.finer is not None
        shard.round(Order(Round(1, 0), x, None, curvature=finer, finely=finer))
    finally:
        notice.cancel()
