"""DIANA (Mishchenko et al. 2019): clients send unbiased compressions of what is missing from shifts h_i, over minibatches.

g = h + mean_i C(grad f_i(x; batch) - h_i),   h_i = h_i + rate C(...),   h = mean_i h_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import errorfeedback as ef


@ef.storable
@dataclass(frozen=True)
class DIANA(ef.Method):
    requires: ClassVar[type[ef.Compressor]] = ef.Unbiased
    rate: float = 0.25
    batch: int = 1

    def init(self, node, ctx):
        return self.client(np.zeros(node.support.size, dtype=node.problem.dtype), node, ctx)

    def client(self, h, node, ctx):
        message = node.compress(node.gradients(rows=ef.Sample(self.batch, ctx)) - h, ctx)
        h += self.rate * message.lifted()
        return message, h

    def server_init(self, mean, ctx):
        return self.server(np.zeros_like(mean), mean, ctx)

    def server(self, h, mean, ctx):
        return h + mean, h + self.rate * mean
