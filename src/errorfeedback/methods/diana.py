"""DIANA (Mishchenko et al. 2019; over minibatches Horvath et al. 2019): clients learn shifts h_i and send unbiased
compressions of what is missing from them,

    m_i = C_i(grad f_i(x) - h_i),   g = h + (1/n) sum_i m_i,   h_i+ = h_i + rate m_i,   h+ = h + (rate/n) sum_i m_i.

With rate = 1/(1 + omega) the shifts approach the gradients as fast as the proof allows. h_i^0 = 0: nothing is sent before
round 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Compressor, Unbiased
from errorfeedback.core import Lifted, Model, Round
from errorfeedback.methods.minibatched import Minibatched
from errorfeedback.methods.node import Node
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import Message


@dataclass(frozen=True)
class DIANA(Minibatched):
    """Shifted compression. `rate`: of the shifts; None: 1/(1 + omega).

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> run = ef.solve(problem, ef.DIANA(ef.RandK(1)), ef.DianaStep(), rounds=2000, every=2000)
    >>> bool(run.history["grad_norm2"][-1] < 1e-2 * run.history["grad_norm2"][0])
    True
    """

    requires: ClassVar[type[Compressor]] = Unbiased  # type: ignore[type-abstract]
    in_expectation: ClassVar[bool] = True
    memory: ClassVar[int] = 1
    rate: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate is not None and not 0 < self.rate <= 1:
            raise ValueError(f"rate = {self.rate}; the share of a message that the shifts take must be in (0, 1]")

    def bind(self, support: Support) -> DIANA:
        self.compressor.check(support)
        assert isinstance(self.compressor, Unbiased), "it requires it"
        largest = float(self.compressor.omega(support).max())
        return self if self.rate is not None else replace(self, rate=1 / (1 + largest))

    @property
    def learns(self) -> float:
        """`rate`, filled in."""
        assert self.rate is not None, "bind() fills rate in"
        return self.rate

    def init(self, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        return self.client(Lifted(np.zeros(node.support.size, dtype=node.problem.dtype)), node, ctx)

    def client(self, h: Lifted, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        message = node.compress(Lifted(node.gradients(rows=self.rows(ctx)) - h), ctx)
        h += self.learns * message.lifted()
        return message, h

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, Model]:
        return self.server(Model(np.zeros_like(mean)), mean, ctx)

    def server(self, h: Model, mean: Model, ctx: Round) -> tuple[Model, Model]:
        g = Model(h + mean)
        h += self.learns * mean
        return g, h

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[DIANA]:
        fitting = [compressor for compressor in compressors if isinstance(compressor, cls.requires)]
        return [cls(fitting[-1]), cls(fitting[1], rate=0.3, batch=2)]
