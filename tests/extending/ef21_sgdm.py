"""EF21-SGDM (Fatkhullin, Tyurin, Richtarik 2023): momentum on the clients, over minibatches.

v_i = (1 - eta) v_i + eta grad f_i(x; batch),   g_i = g_i + C(v_i - g_i).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import errorfeedback as ef


@ef.storable
@dataclass(frozen=True)
class EF21SGDM(ef.Method):
    requires: ClassVar[type[ef.Compressor]] = ef.Contractive
    eta: float = 0.5
    batch: int = 1

    def init(self, node, ctx):
        zero = np.zeros(node.support.size, dtype=node.problem.dtype)
        return self.client((node.gradients(rows=ef.Sample(self.batch, ctx)).copy(), zero), node, ctx)

    def client(self, state, node, ctx):
        v, g = state
        v *= 1 - self.eta
        v += self.eta * node.gradients(rows=ef.Sample(self.batch, ctx))
        return node.compress.track(g, v.copy(), ctx), (v, g)

    def server(self, g, mean, ctx):
        g += mean
        return g, g
