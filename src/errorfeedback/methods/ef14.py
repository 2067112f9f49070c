"""Error feedback of 2014 (Seide et al.; section 2.2):

    v_i = C(e_i + gamma grad f_i(x)),   x+ = x - (1/n) sum_i v_i,   e_i+ = e_i + gamma grad f_i(x) - v_i.

The memory is kept in units of the gradient, e_i / gamma: for a constant step size and a compressor with
C(gamma u) = gamma C(u), as all of ours (those that round, up to their rounding), this is the same method, and clients need
not know gamma.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Compressor, Contractive
from errorfeedback.core import Lifted, Model, Round
from errorfeedback.methods.base import Method
from errorfeedback.methods.node import Node
from errorfeedback.wire.message import Message


@dataclass(frozen=True)
class EF14(Method):
    """What was not sent is added to the next gradient."""

    requires: ClassVar[type[Compressor]] = Contractive  # type: ignore[type-abstract]
    memory: ClassVar[int] = 1

    def init(self, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        return self.client(Lifted(np.zeros(node.support.size, dtype=node.problem.dtype)), node, ctx)

    def client(self, e: Lifted, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        e += node.gradients()
        v = node.compress(e, ctx)
        return v, v.take_from(e)

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    def server(self, state: None, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None
