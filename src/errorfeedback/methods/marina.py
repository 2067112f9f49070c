"""MARINA (Gorbunov et al. 2021): with probability p all clients send their gradients, otherwise compressed differences,

    g^{t+1} = grad f(x^{t+1})  with probability p,   else   g^t + (1/n) sum_i C_i(grad f_i(x^{t+1}) - grad f_i(x^t)).

With `SomeClients` it has partial participation (PP-MARINA).
"""

from __future__ import annotations

from dataclasses import dataclass

from errorfeedback.core import Lifted, Round
from errorfeedback.methods.node import Node
from errorfeedback.methods.synchronising import Synchronising
from errorfeedback.wire.message import Message


@dataclass(frozen=True)
class MARINA(Synchronising):
    """Variance-reduced gradient differences."""

    def init(self, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        grads = node.gradients()
        return node.compress.everything(grads), grads.copy()

    def client(self, last: Lifted, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        grads = node.gradients()
        message = node.compress.everything(grads) if self.synchronises(ctx) else node.compress(Lifted(grads - last), ctx)
        last[:] = grads
        return message, last
