"""Scaffnew, or ProxSkip (Mishchenko et al. 2022), with a fixed number of local steps between two exchanges: h_i corrects
what makes client i's steps differ from everybody's.

    w_i = w_i - rate (grad f_i(w_i) - h_i),  `steps` times;   h_i = h_i + (x+ - w_i) / (rate * steps),

where x+ is the next x; features with few owners are averaged by the server over their owners.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import errorfeedback as ef


@ef.storable
@dataclass(frozen=True)
class Scaffnew(ef.Method):
    compressor: ef.Compressor = field(default=ef.Identity(), init=False)
    steps: int = 5
    rate: float = 0.1

    def init(self, node, ctx):
        return self._local(np.zeros_like(node.own()), node, ctx)

    def client(self, state, node, ctx):
        h, w = state  # where the client came to in the last round; x is where all have come to
        return self._local(h + (node.own() - w) / (self.rate * self.steps), node, ctx)

    def _local(self, h, node, ctx):
        w, x, share = node.own().copy(), node.own(), node.support.n_total / node.support.counts[node.support.indices]
        for _ in range(self.steps):
            w -= self.rate * (node.gradients(ef.Point(own=w)) - h)
        return node.compress(share * (x - w), ctx), (h, w)

    def server_init(self, mean, ctx):
        return mean, None

    def server(self, state, mean, ctx):
        return mean, None
