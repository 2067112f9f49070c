"""Error feedback of 2014 (Seide et al.; section 2.2):

    v_i = C(e_i + gamma grad f_i(x)),   x+ = x - (1/n) sum_i v_i,   e_i+ = e_i + gamma grad f_i(x) - v_i,

with the gradient over all rows or over a minibatch of them. The memory is kept in units of the gradient, e_i / gamma: for a
constant step size and a compressor with C(gamma u) = gamma C(u), as all of ours (those that round, up to their rounding),
this is the same method, and clients need not know gamma.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Compressor, Contractive
from errorfeedback.core import Lifted, Model, Round
from errorfeedback.methods.minibatched import Minibatched
from errorfeedback.methods.node import Node
from errorfeedback.wire.message import Message


@dataclass(frozen=True)
class EF14(Minibatched):
    """What was not sent is added to the next gradient."""

    requires: ClassVar[type[Compressor]] = Contractive  # type: ignore[type-abstract]
    memory: ClassVar[int] = 1

    def init(self, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        return self.client(Lifted(np.zeros(node.support.size, dtype=node.problem.dtype)), node, ctx)

    def client(self, e: Lifted, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        e += node.gradients(rows=self.rows(ctx))
        v = node.compress(e, ctx)
        return v, v.take_from(e)

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    def server(self, state: None, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[EF14]:
        fitting = [compressor for compressor in compressors if isinstance(compressor, cls.requires)]
        return [cls(each) for each in fitting] + [cls(fitting[0], batch=2), cls(fitting[-1], batch=1)]
