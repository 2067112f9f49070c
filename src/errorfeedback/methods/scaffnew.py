"""Scaffnew, or ProxSkip on the consensus of all clients (Mishchenko et al. 2022, Algorithm 2): local steps, an exchange
after each with probability p,

    w_i = w_i - rate (grad f_i(w_i) - h_i) until the coin falls;   x+ = mean of the w_i,   h_i+ = h_i + (p/rate)(x+ - w_i).

A round is the time between two exchanges: K steps, K geometric with P(K = k) = p (1-p)^(k-1), drawn from the stream that all
share. With u_i = (p/rate)(x - w_i) and g their mean, gamma = rate/p gives the method; another gamma moves x by part of the
way, and h_i+ = h_i + u_i - g in any case, which clients find in how x has moved. A feature is averaged over its owners
alone: the consensus of those that have it, which is ProxSkip in the lifted space.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor, log1p
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Compressor
from errorfeedback.compressors.identity import Identity
from errorfeedback.core import Lifted, Model, Round
from errorfeedback.keyed import COIN, uniform
from errorfeedback.methods.local_steps import LocalSteps
from errorfeedback.methods.node import Node
from errorfeedback.methods.stepping import StepReader
from errorfeedback.wire.message import Message

Memory = tuple[Lifted, Lifted, Lifted]
"""h_i, u_i, and where the client last stood."""


@dataclass(frozen=True)
class Scaffnew(LocalSteps, StepReader):
    """Local steps that learn what makes a client differ. `p`: of an exchange after a step; best is sqrt(rate mu), where all
    f_i are strongly convex with mu; rate=None is its theorem's, 1/L_max.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> run = ef.solve(problem, ef.Scaffnew(p=0.2), ef.ScaffnewStep(), rounds=500, every=500)
    >>> bool(run.history["grad_norm2"][-1] < 1e-3 * run.history["grad_norm2"][0])
    True
    """

    in_expectation: ClassVar[bool] = True
    memory: ClassVar[int] = 3
    compressor: Compressor = field(default=Identity(), init=False)
    p: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.p <= 1:
            raise ValueError(f"p = {self.p}; the probability of an exchange after a step must be in (0, 1]")

    @property
    def unit(self) -> float:
        return self.pace / self.p

    def steps(self, ctx: Round) -> int:
        """K of this round."""
        return 1 if self.p == 1 else 1 + floor(log1p(-uniform(ctx.seed, ctx.t, COIN)) / log1p(-self.p))

    def init(self, node: Node, ctx: Round) -> tuple[Message, Memory]:
        return self._round(Lifted(np.zeros(node.support.size, dtype=node.problem.dtype)), node, ctx)

    def client(self, state: Memory, node: Node, ctx: Round) -> tuple[Message, Memory]:
        h, u, x = state
        return self._round(Lifted(h + u - self.estimate_at(x, node)), node, ctx)

    def _round(self, h: Lifted, node: Node, ctx: Round) -> tuple[Message, Memory]:
        u = Lifted(self.walk(node, ctx, self.steps(ctx), lambda w: Lifted(-h)) / self.unit)
        of_owners = node.support.n_total / node.support.counts[node.support.indices]
        message = node.compress(Lifted((of_owners * u).astype(u.dtype, copy=False)), ctx)
        return message, (h, u, Lifted(node.own().copy()))

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    def server(self, state: None, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[Scaffnew]:
        return [cls(p=0.4, rate=0.01)]
