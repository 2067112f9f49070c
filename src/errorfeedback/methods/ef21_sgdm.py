"""EF21-SGDM (Fatkhullin, Tyurin, Richtarik 2023, Algorithm 1): momentum on the clients, so that minibatches may be small,

    x+ = x - gamma g,   v_i+ = (1 - eta) v_i + eta grad f_i(x+; batch),   g_i+ = g_i + C(v_i+ - g_i),   g = (1/n) sum_i g_i.

EF21 on minibatches (eta = 1) tracks their noise and stops at it; v_i averages it over about 1/eta rounds. It begins with
v_i^0 = grad f_i(x^0; batch) and g_i^0 = C(v_i^0).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Compressor, Contractive
from errorfeedback.core import Lifted, Model, Round
from errorfeedback.methods.base import Traffic
from errorfeedback.methods.minibatched import Minibatched
from errorfeedback.methods.node import Node
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import Message

Memory = tuple[Lifted, Lifted]
"""v_i and g_i."""


@dataclass(frozen=True)
class EF21SGDM(Minibatched):
    """Clients send what is missing from their estimates g_i of the momentum v_i. `eta` in (0, 1]: the share of a new
    gradient in it (`ef.RareMomentum` says which is best)."""

    requires: ClassVar[type[Compressor]] = Contractive  # type: ignore[type-abstract]
    in_expectation: ClassVar[bool] = True
    error_feedback: ClassVar[bool] = True
    memory: ClassVar[int] = 2
    eta: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.eta <= 1:
            raise ValueError(f"eta = {self.eta}; the share of a new gradient in the momentum must be in (0, 1]")

    def init(self, node: Node, ctx: Round) -> tuple[Message, Memory]:
        v = Lifted(node.gradients(rows=self.rows(ctx)).copy())
        g = Lifted(np.zeros_like(v))
        return node.compress.track(g, Lifted(v.copy()), ctx), (v, g)

    def client(self, state: Memory, node: Node, ctx: Round) -> tuple[Message, Memory]:
        v, g = state
        grads = node.gradients(rows=self.rows(ctx))
        v *= 1 - self.eta
        grads *= self.eta
        v += grads
        grads[:] = v
        return node.compress.track(g, grads, ctx), state

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
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[EF21SGDM]:
        fitting = [compressor for compressor in compressors if isinstance(compressor, cls.requires)]
        return [cls(each, batch=2, eta=0.3) for each in fitting[::3]] + [cls(fitting[0], eta=0.3)]
