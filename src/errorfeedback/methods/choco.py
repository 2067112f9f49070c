"""CHOCO-SGD (Koloskova, Stich, Jaggi 2019) with one server that mixes: every client has a model of its own,
w_i, of which others know an estimate z_i; it sends the compressed difference of the two.

    w_i = w_i - rate grad f_i(w_i),   c_i = C(w_i - z_i),   z_i = z_i + c_i,   w_i = w_i + pull (x - z_i),

where x is the mean of all z_i, which the server keeps: with the step size 1, x+ = x + (1/n) sum_i c_i. On rare features the
mean is over a feature's owners: C is given, and the server gets, s_j = n/|I_j| times the difference (1 where all own all).
Their theorem is about doubly stochastic mixing and decreasing rates; no rule here has a step size from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Compressor, Contractive
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import Floats, Lifted, Model, Point, Round
from errorfeedback.methods.minibatched import Minibatched
from errorfeedback.methods.node import Node
from errorfeedback.wire.message import Message

Memory = tuple[Lifted, Lifted]
"""w_i before it is pulled, and z_i."""


@dataclass(frozen=True)
class Choco(Minibatched):
    """For the step size 1, `ef.Constant(1.0)`; `rate` is that of the clients, `pull` in (0, 1] how far they go towards x.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=40, m=5, c=4)
    >>> run = ef.solve(problem, ef.Choco(ef.TopK(2), rate=0.002), ef.Constant(1.0), rounds=300, every=300)
    >>> bool(run.history["f"][-1] < 0.7 * run.history["f"][0])
    True
    """

    requires: ClassVar[type[Compressor]] = Contractive  # type: ignore[type-abstract]
    memory: ClassVar[int] = 2
    rate: float = 0.01
    pull: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isfinite(self.rate) and self.rate > 0):
            raise ValueError(f"rate = {self.rate}; the clients' step size must be finite and positive")
        if not 0 < self.pull <= 1:
            raise ValueError(f"pull = {self.pull}; how far clients go towards the mean must be in (0, 1]")

    def tuned(self, gamma: float) -> tuple[Choco, float]:
        """The clients' rate: the server's step is 1."""
        return replace(self, rate=gamma), 1.0

    def init(self, node: Node, ctx: Round) -> tuple[Message, Memory]:
        x = node.own()
        return self.client((Lifted(x.copy()), Lifted(x.copy())), node, ctx)

    def client(self, state: Memory, node: Node, ctx: Round) -> tuple[Message, Memory]:
        w, z = state
        w += self.pull * (node.own() - z)
        w -= self.rate * node.gradients(Point(own=w), rows=self.rows(ctx))
        scale = _scale(node)
        message = node.compress(Lifted(scale * (z - w)), ctx)
        z -= message.lifted() / scale
        return message, state

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    def server(self, state: None, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[Choco]:
        return [cls(TopK(1), batch=2, rate=0.02, pull=0.05)]


def _scale(node: Node) -> Floats:
    """n/|I_j| at every position."""
    s = node.support
    return np.asarray(s.n_total / s.counts[s.indices], dtype=node.problem.dtype)
