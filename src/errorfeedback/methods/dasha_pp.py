"""DASHA-PP (Tyurin, Richtarik 2023, Algorithm 1 with full gradients): DASHA in which client i answers with probability p,

    k_i = grad f_i(x+) - grad f_i(x) - b (h_i - grad f_i(x)),   m_i = C_i((k_i - a (g_i - h_i))/p),
    h_i+ = h_i + k_i/p,   g_i+ = g_i + m_i   where it does; otherwise m_i = 0 and both stay;   g+ = g + (1/n) sum_i m_i,

with a = p/(2 omega + 1) and b = p/(2 - p). h_i estimates the gradient of a client that does not see every x, g_i what the
server knows of it. m_i is `SomeClients(C, p)` of k_i - a (g_i - h_i). Who answers needs the last two x: all hear every x,
and that is counted. It begins with h_i = g_i = grad f_i(x^0), sent whole and counted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Compressor, Operator
from errorfeedback.compressors.some_clients import SomeClients
from errorfeedback.core import Lifted, Model, Point, Round
from errorfeedback.methods.base import Method, Traffic, full_upload
from errorfeedback.methods.node import Node
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import KnownLayout, Message

Memory = tuple[Lifted, Lifted, Lifted]
"""g_i, h_i, and where the client last stood."""


@dataclass(frozen=True)
class DASHAPP(Method):
    """DASHA for clients that answer now and then, all with the same probability.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> method = ef.DASHAPP(ef.SomeClients(ef.RandK(1), p=0.5))
    >>> run = ef.solve(problem, method, ef.DashaPPStep(), rounds=4000, every=4000)
    >>> bool(run.history["grad_norm2"][-1] < 1e-2 * run.history["grad_norm2"][0])
    True
    """

    requires: ClassVar[type[Compressor]] = SomeClients
    in_expectation: ClassVar[bool] = True
    memory: ClassVar[int] = 3
    a: float | None = None
    """None: p/(2 omega + 1)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.some.p, float):
            raise ValueError(f"p = {self.some.p}; DASHAPP is about clients with one probability for all of them")
        if self.a is not None and not 0 < self.a <= 1:
            raise ValueError(f"a = {self.a}; the share of an error that is forgotten in a round must be in (0, 1]")

    @property
    def some(self) -> SomeClients:
        assert isinstance(self.compressor, SomeClients), "it requires it"
        return self.compressor

    @property
    def p(self) -> float:
        return float(np.asarray(self.some.p))

    def bind(self, support: Support) -> DASHAPP:
        self.compressor.check(support)
        largest = float(self.some.compressor.omega(support).max())
        return self if self.a is not None else replace(self, a=self.p / (2 * largest + 1))

    @property
    def forgets(self) -> float:
        """`a`, filled in."""
        assert self.a is not None, "bind() fills a in"
        return self.a

    @property
    def b(self) -> float:
        return self.p / (2 - self.p)

    def init(self, node: Node, ctx: Round) -> tuple[Message, Memory]:
        grads = node.gradients()
        return node.compress.everything(grads), (Lifted(grads.copy()), Lifted(grads.copy()), Lifted(node.own().copy()))

    def client(self, state: Memory, node: Node, ctx: Round) -> tuple[Message, Memory]:
        g, h, x = state
        last = Lifted(node.gradients(Point(own=x)).copy())
        k = Lifted(node.gradients() - last - self.b * (h - last))
        message = node.compress(Lifted(k - self.forgets * (g - h)), ctx)
        assert message.frames.answers is not None, "some clients do not answer"
        h += np.where(np.repeat(message.frames.answers, node.support.sizes), k / self.p, 0.0)
        message.add_to(g)
        x[:] = node.own()
        return message, state

    def known(self, compress: Operator, ctx: Round) -> KnownLayout:
        return KnownLayout(compress.whole, None) if ctx.t == 0 else compress.known(ctx)

    def server(self, g: Model, mean: Model, ctx: Round) -> tuple[Model, Model]:
        g += mean
        return g, g

    def traffic(self, support: Support) -> Traffic:
        return Traffic(full_upload(support), self.compressor.message_bits(support))
