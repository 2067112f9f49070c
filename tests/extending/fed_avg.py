"""FedAvg (McMahan et al. 2017): every client takes a few gradient steps from x on its own, and sends how far it came.

With the step size 1 on the server, x+ = x + (1/n) sum_i (w_i - x) on J_i.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import errorfeedback as ef


@ef.storable
@dataclass(frozen=True)
class FedAvg(ef.Method):
    compressor: ef.Compressor = field(default=ef.Identity(), init=False)
    steps: int = 5
    rate: float = 0.1

    def init(self, node, ctx):
        return self.client(None, node, ctx)

    def client(self, state, node, ctx):
        w = node.own().copy()
        for _ in range(self.steps):
            w -= self.rate * node.gradients(ef.Point(own=w))
        return node.compress(node.own() - w, ctx), None

    def server_init(self, mean, ctx):
        return mean, None

    def server(self, state, mean, ctx):
        return mean, None
