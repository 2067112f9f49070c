"""EF21-PAGE (Fatkhullin et al. 2021, Algorithm 3): EF21 of an estimate v_i that costs a few rows in most rounds,

    v_i+ = grad f_i(x+)  with probability p,   else  v_i + grad f_i(x+; batch) - grad f_i(x; batch),
    g_i+ = g_i + C(v_i+ - g_i),   x+ = x - gamma g,   g = (1/n) sum_i g_i,

over the same rows at both points. Every client tosses a coin of its own, keyed by (seed, round, client). It begins with
v_i^0 = grad f_i(x^0) and g_i^0 = C(v_i^0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from errorfeedback.compressors.base import Compressor, Contractive
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import Lifted, Model, Point, Round, Sample
from errorfeedback.keyed import toss
from errorfeedback.methods.base import Method, Traffic
from errorfeedback.methods.node import Node
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import Message

Memory = tuple[Lifted, Lifted, Lifted]
"""v_i, g_i and where client i stood."""
COINS = -(2**41)
"""Client i's coin is the stream COINS - i: apart from the streams that compressors draw from."""


@dataclass(frozen=True)
class EF21PAGE(Method):
    """`p`: how often a client takes its whole gradient; `batch`: of how many rows it takes differences elsewhere."""

    requires: ClassVar[type[Compressor]] = Contractive  # type: ignore[type-abstract]
    in_expectation: ClassVar[bool] = True
    error_feedback: ClassVar[bool] = True
    memory: ClassVar[int] = 3
    p: float = 0.1
    batch: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.p <= 1:
            raise ValueError(f"p = {self.p}; the probability of a whole gradient must be in (0, 1]")
        Sample(self.batch, Round(0, 0))  # which says what is wrong with it

    def takes_all(self, support: Support, ctx: Round) -> NDArray[np.bool_]:
        """Which clients take their whole gradient in this round."""
        heads = np.empty(support.n, dtype=bool)
        toss(ctx.seed, ctx.t, COINS - support.first, np.full(support.n, self.p), heads)
        return heads

    def init(self, node: Node, ctx: Round) -> tuple[Message, Memory]:
        v = Lifted(node.gradients().copy())
        g = Lifted(np.zeros_like(v))
        return node.compress.track(g, Lifted(v.copy()), ctx), (v, g, Lifted(node.own().copy()))

    def client(self, state: Memory, node: Node, ctx: Round) -> tuple[Message, Memory]:
        v, g, stood = state
        heads = self.takes_all(node.support, ctx)
        if not heads.all():
            rows = Sample(self.batch, ctx)
            v += node.gradients(rows=rows)
            v -= node.gradients(Point(own=stood), rows=rows)
        if heads.any():
            np.copyto(v, node.gradients(), where=np.repeat(heads, node.support.sizes))
        stood[:] = node.own()
        return node.compress.track(g, Lifted(v.copy()), ctx), state

    def server(self, g: Model, c: Model, ctx: Round) -> tuple[Model, Model]:
        g += c
        return g, g

    def error(self, state: Memory, grads: Lifted) -> Lifted:
        return Lifted(state[1] - grads)

    def estimate(self, g: Model) -> Model:
        return g

    def traffic(self, support: Support) -> Traffic:
        message = self.compressor.message_bits(support)
        return Traffic(message, message)

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[EF21PAGE]:
        return [cls(TopK(1), p=0.3, batch=2)]
