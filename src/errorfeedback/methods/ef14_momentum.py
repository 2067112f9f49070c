"""EF14 with momentum on the clients (dist-EF-SGDM; Zheng, Huang, Kwok 2019):

    m_i+ = eta m_i + grad f_i(x),   v_i = C(e_i + gamma (eta m_i+ + grad f_i(x))),   x+ = x - (1/n) sum_i v_i,
    e_i+ = e_i + gamma (eta m_i+ + grad f_i(x)) - v_i,

with gradients over all rows or over a minibatch. As in EF14 the memory e_i is kept in units of the gradient, for a constant
step size. Their server compresses its answer in the same way: that is the downlink `Primal`. Their theorem assumes bounded
gradients; no rule here has a step size from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Compressor, Contractive
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import Lifted, Model, Round
from errorfeedback.methods.minibatched import Minibatched
from errorfeedback.methods.node import Node
from errorfeedback.wire.message import Message

Memory = tuple[Lifted, Lifted]
"""m_i and e_i."""


@dataclass(frozen=True)
class EF14Momentum(Minibatched):
    """What was not sent is added to the next step of momentum. `eta` in [0, 1): how much of the momentum is kept."""

    requires: ClassVar[type[Compressor]] = Contractive  # type: ignore[type-abstract]
    memory: ClassVar[int] = 2
    eta: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.eta < 1:
            raise ValueError(f"eta = {self.eta}; the share of the momentum that is kept must be in [0, 1)")

    def init(self, node: Node, ctx: Round) -> tuple[Message, Memory]:
        m, e = np.zeros((2, node.support.size), dtype=node.problem.dtype)
        return self.client((Lifted(m), Lifted(e)), node, ctx)

    def client(self, state: Memory, node: Node, ctx: Round) -> tuple[Message, Memory]:
        m, e = state
        grads = node.gradients(rows=self.rows(ctx))
        m *= self.eta
        m += grads
        e += self.eta * m + grads
        v = node.compress(e, ctx)
        v.take_from(e)
        return v, state

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    def server(self, state: None, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[EF14Momentum]:
        return [cls(TopK(1), batch=2, eta=0.5)]
