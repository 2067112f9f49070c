"""DASHA (Tyurin, Richtarik 2022, Algorithm 1 with full gradients): compressed differences with momentum, and no round in
which everybody sends everything,

    m_i = C_i(grad f_i(x+) - grad f_i(x) - a (g_i - grad f_i(x))),   g_i+ = g_i + m_i,   g+ = g + (1/n) sum_i m_i.

a = 1/(2 omega + 1) forgets what compression lost. It begins with g_i^0 = grad f_i(x^0), sent whole and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from errorfeedback.compressors.base import Compressor, Operator, Unbiased
from errorfeedback.core import Lifted, Model, Round
from errorfeedback.methods.base import Method, Traffic, full_upload
from errorfeedback.methods.node import Node
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import KnownLayout, Message

Memory = tuple[Lifted, Lifted]
"""g_i, and grad f_i where the clients last stood."""


@dataclass(frozen=True)
class DASHA(Method):
    """Unbiased compression of differences. `a`: how fast errors are forgotten; None: 1/(2 omega + 1).

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> run = ef.solve(problem, ef.DASHA(ef.RandK(1)), ef.DashaStep(), rounds=2000, every=2000)
    >>> bool(run.history["grad_norm2"][-1] < 1e-2 * run.history["grad_norm2"][0])
    True
    """

    requires: ClassVar[type[Compressor]] = Unbiased  # type: ignore[type-abstract]
    in_expectation: ClassVar[bool] = True
    memory: ClassVar[int] = 2
    a: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.a is not None and not 0 < self.a <= 1:
            raise ValueError(f"a = {self.a}; the share of an error that is forgotten in a round must be in (0, 1]")

    def bind(self, support: Support) -> DASHA:
        self.compressor.check(support)
        assert isinstance(self.compressor, Unbiased), "it requires it"
        largest = float(self.compressor.omega(support).max())
        return self if self.a is not None else replace(self, a=1 / (2 * largest + 1))

    @property
    def forgets(self) -> float:
        """`a`, filled in."""
        assert self.a is not None, "bind() fills a in"
        return self.a

    def init(self, node: Node, ctx: Round) -> tuple[Message, Memory]:
        grads = node.gradients()
        return node.compress.everything(grads), (Lifted(grads.copy()), Lifted(grads.copy()))

    def client(self, state: Memory, node: Node, ctx: Round) -> tuple[Message, Memory]:
        g, last = state
        grads = node.gradients()
        message = node.compress(Lifted(grads - last - self.forgets * (g - last)), ctx)
        message.add_to(g)
        last[:] = grads
        return message, state

    def known(self, compress: Operator, ctx: Round) -> KnownLayout:
        return KnownLayout(compress.whole, None) if ctx.t == 0 else compress.known(ctx)

    def server(self, g: Model, mean: Model, ctx: Round) -> tuple[Model, Model]:
        g += mean
        return g, g

    def traffic(self, support: Support) -> Traffic:
        return Traffic(full_upload(support), self.compressor.message_bits(support))

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[DASHA]:
        fitting = [compressor for compressor in compressors if isinstance(compressor, cls.requires)]
        return [cls(fitting[-1])]
