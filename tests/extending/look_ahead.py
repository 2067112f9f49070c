"""Every client takes a step of its own from x, and sends its gradient there (the extragradient of Korpelevich 1976, on f_i):

g = (1/n) sum_i grad f_i(x - rate grad f_i(x)).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import errorfeedback as ef


@ef.storable
@dataclass(frozen=True)
class LookAhead(ef.Method):
    compressor: ef.Compressor = field(default=ef.Identity(), init=False)
    rate: float = 0.1

    def init(self, node, ctx):
        return self.client(None, node, ctx)

    def client(self, state, node, ctx):
        w = node.own() - self.rate * node.gradients()
        return node.compress(node.gradients(ef.Point(own=w)), ctx), None

    def server_init(self, mean, ctx):
        return mean, None

    def server(self, state, mean, ctx):
        return mean, None
