"""Momentum on the clients, over minibatches: v_i = (1 - eta) v_i + eta grad f_i(x; batch), of which C(v_i) is sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import errorfeedback as ef


@ef.storable
@dataclass(frozen=True)
class Momentum(ef.Method):
    requires: ClassVar[type[ef.Compressor]] = ef.Unbiased
    eta: float = 0.3
    batch: int = 1

    def init(self, node, ctx):
        return self.client(np.zeros(node.support.size, dtype=node.problem.dtype), node, ctx)

    def client(self, v, node, ctx):
        v += self.eta * (node.gradients(rows=ef.Sample(self.batch, ctx)) - v)
        return node.compress(v, ctx), v

    def server_init(self, mean, ctx):
        return mean, None

    def server(self, state, mean, ctx):
        return mean, None
