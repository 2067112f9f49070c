"""The client side of a round, for all clients of a shard at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from errorfeedback.compressors.base import Message
from errorfeedback.core import Floats, Lifted, Model, PerClient, Round
from errorfeedback.methods.base import Method
from errorfeedback.problems.base import Problem
from errorfeedback.runtime.sketch import sketches
from errorfeedback.stepsizes.base import Ask


@dataclass(frozen=True, eq=False)
class Observation:
    """What a simulation can look at, over the clients of a shard: never on a wire, never timed."""

    grads: Lifted
    error: Lifted | None
    """g_i - grad f_i(x), where the method has g_i."""


class Worker:
    """A shard: its data, its clients' memory, and their part of the method."""

    def __init__(self, problem: Problem, method: Method) -> None:
        self.problem, self.method = problem, method
        self.compress = method.compressor.on(problem.support)
        self.state: Any = None
        self.grads = np.zeros(problem.support.size)
        self._compile()

    def _compile(self) -> None:
        """One round on zeros, so that no kernel is compiled while the clock runs."""
        ctx = Round(t=0, seed=0)
        _, state = self.method.init(self.grads, self.compress, ctx)
        self.method.client(state, self.grads, self.compress, ctx)

    def start(self, x: Model, ctx: Round) -> Message:
        """Round 0."""
        self.grads = self.problem.gradients(x)
        message, self.state = self.method.init(self.grads, self.compress, ctx)
        return message

    def round(self, x: Model, ctx: Round) -> Message:
        """A later round."""
        self.grads = self.problem.gradients(x)
        message, self.state = self.method.client(self.state, self.grads, self.compress, ctx)
        return message

    def telemetry(self, ask: Ask, ctx: Round) -> Floats:
        """(n, ask.numbers): G_i where asked for, then the sketch of g_i - grad f_i(x)."""
        support, error = self.problem.support, self.method.error(self.state, self.grads)
        assert error is not None, "rules with telemetry are for methods with gradient estimates"
        told = [support.norms2(error)[:, None]] * ask.G
        if ask.sketch:
            told.append(sketches(error, support, ask.sketch, ctx))
        return np.hstack(told)

    def observe(self) -> Observation:
        return Observation(self.grads, self.method.error(self.state, self.grads))

    def values(self, x: Model) -> PerClient:
        """f_i(x)."""
        return self.problem.values(x)
