"""EControl (Gao, Islamov, Stich 2023): EF21's estimate, and a share of EF14's error in what is sent,

    c_i = C(eta e_i + grad f_i(x) - h_i),   h_i+ = h_i + c_i,   e_i+ = e_i + grad f_i(x) - h_i+,
    x+ = x - (gamma/n) sum_i h_i+,

with gradients over all rows or over a minibatch. At eta = 0 it is EF21. They begin with h_i a gradient; here h_i = 0, so
that nothing but C of something is ever sent. Their theorem asks for eta of the order alpha and a gamma of the order alpha/L,
with constants that are not at hand; no rule here has a step size from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Compressor, Contractive
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import Lifted, Model, Round
from errorfeedback.methods.base import Traffic
from errorfeedback.methods.minibatched import Minibatched
from errorfeedback.methods.node import Node
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import Message

Memory = tuple[Lifted, Lifted]
"""h_i and e_i."""


@dataclass(frozen=True)
class EControl(Minibatched):
    """`eta` in [0, 1]: how much of the accumulated error is fed back in a round."""

    requires: ClassVar[type[Compressor]] = Contractive  # type: ignore[type-abstract]
    error_feedback: ClassVar[bool] = True
    memory: ClassVar[int] = 2
    eta: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.eta <= 1:
            raise ValueError(f"eta = {self.eta}; the share of the error that is fed back must be in [0, 1]")

    def init(self, node: Node, ctx: Round) -> tuple[Message, Memory]:
        h, e = np.zeros((2, node.support.size), dtype=node.problem.dtype)
        return self.client((Lifted(h), Lifted(e)), node, ctx)

    def client(self, state: Memory, node: Node, ctx: Round) -> tuple[Message, Memory]:
        h, e = state
        grads = node.gradients(rows=self.rows(ctx))
        message = node.compress(Lifted(self.eta * e + grads - h), ctx)
        message.add_to(h)
        e += grads
        e -= h
        return message, state

    def server(self, h: Model, c: Model, ctx: Round) -> tuple[Model, Model]:
        h += c
        return h, h

    def error(self, state: Memory, grads: Lifted) -> Lifted:
        return Lifted(state[0] - grads)

    def estimate(self, h: Model) -> Model:
        return h

    def traffic(self, support: Support) -> Traffic:
        message = self.compressor.message_bits(support)
        return Traffic(message, message)

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[EControl]:
        return [cls(TopK(1), batch=2, eta=0.02)]
