"""SCAFFOLD (Karimireddy et al. 2020, option II, all clients in every round): local steps with control variates,

    w_i = w_i - rate (grad f_i(w_i) - c_i + c)  K times from x,   c_i+ = c_i - c + (x - w_i)/(K rate),   c = (1/n) sum_i c_i,
    x+ = x - gamma (1/n) sum_i (x - w_i)/(K rate),

their eta_g = gamma/(K rate). Where all clients answer, c+ is the mean of the (x - w_i)/(K rate), that is (x - x+)/gamma: a
client that knows gamma finds c in how x has moved, and no second vector crosses the wire either way. A client that does not
own a feature has c_i = 0 there and would follow c alone; the owners of feature j add what these n - |I_j| would send.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Compressor
from errorfeedback.compressors.identity import Identity
from errorfeedback.core import Lifted, Model, Round
from errorfeedback.methods.local_steps import FixedSteps
from errorfeedback.methods.node import Node
from errorfeedback.methods.stepping import StepReader
from errorfeedback.wire.message import Message

Memory = tuple[Lifted, Lifted]
"""c_i, and where the client last stood."""


@dataclass(frozen=True)
class SCAFFOLD(FixedSteps, StepReader):
    """Local steps without drift.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> run = ef.solve(problem, ef.SCAFFOLD(rate=0.01), ef.Averaging(), rounds=500, every=500)
    >>> bool(run.history["grad_norm2"][-1] < 1e-2 * run.history["grad_norm2"][0])
    True
    """

    memory: ClassVar[int] = 2
    compressor: Compressor = field(default=Identity(), init=False)

    def natural_rate(self, L_max: float) -> float:
        """That of its theorem (`ScaffoldStep`)."""
        return 1 / (24 * self.steps * L_max)

    def init(self, node: Node, ctx: Round) -> tuple[Message, Memory]:
        zero = Lifted(np.zeros(node.support.size, dtype=node.problem.dtype))
        return self._round(zero, zero, node, ctx)

    def client(self, state: Memory, node: Node, ctx: Round) -> tuple[Message, Memory]:
        c_i, x = state
        return self._round(c_i, self.estimate_at(x, node), node, ctx)

    def _round(self, c_i: Lifted, c: Lifted, node: Node, ctx: Round) -> tuple[Message, Memory]:
        correction = Lifted(c - c_i)
        u = self.walk(node, ctx, self.steps, lambda w: correction) / self.unit
        owners = node.support.counts[node.support.indices]
        others = Lifted(((node.support.n_total - owners) / owners * c).astype(u.dtype, copy=False))
        return node.compress(Lifted(u + others), ctx), (Lifted(u - correction), Lifted(node.own().copy()))

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    def server(self, state: None, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[SCAFFOLD]:
        return [cls(steps=3, rate=0.001)]
