"""MARINA (Gorbunov et al. 2021): with probability p all clients send their gradients, otherwise compressed differences,

    g^{t+1} = grad f(x^{t+1})  with probability p,   else   g^t + (1/n) sum_i C_i(grad f_i(x^{t+1}) - grad f_i(x^t)).

The coin is keyed by (seed, round): clients and server toss the same one, and it crosses no wire.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from errorfeedback.compressors.base import Compressor, Operator, Unbiased
from errorfeedback.core import Lifted, Model, PerClient, Round
from errorfeedback.keyed import COIN, uniform
from errorfeedback.methods.base import Method, Traffic, full_upload
from errorfeedback.methods.node import Node
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import KnownLayout, Message


@dataclass(frozen=True)
class MARINA(Method):
    """Variance-reduced gradient differences. p: the usual choice is the share of entries that the compressor sends."""

    requires: ClassVar[type[Compressor]] = Unbiased  # type: ignore[type-abstract]
    in_expectation: ClassVar[bool] = True
    memory: ClassVar[int] = 1
    p: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.p is not None and not 0 < self.p <= 1:
            raise ValueError(f"p = {self.p}; the probability of a full upload must be in (0, 1]")

    def bind(self, support: Support) -> MARINA:
        self.compressor.check(support)
        return self if self.p is not None else replace(self, p=self.compressor.density(support))

    def synchronises(self, ctx: Round) -> bool:
        """Whether this is a round of full gradients."""
        assert self.p is not None, "bind() fills p in"
        return bool(uniform(ctx.seed, ctx.t, COIN) < self.p)

    def init(self, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        grads = node.gradients()
        return node.compress.everything(grads), grads.copy()

    def client(self, last: Lifted, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        grads = node.gradients()
        message = node.compress.everything(grads) if self.synchronises(ctx) else node.compress(Lifted(grads - last), ctx)
        last[:] = grads
        return message, last

    def known(self, compress: Operator, ctx: Round) -> KnownLayout:
        whole = ctx.t == 0 or self.synchronises(ctx)
        return KnownLayout(compress.whole, None) if whole else compress.known(ctx)

    def server(self, g: Model, mean: Model, ctx: Round) -> tuple[Model, Model]:
        if self.synchronises(ctx):
            g[:] = mean
        else:
            g += mean
        return g, g

    def traffic(self, support: Support) -> Traffic:
        assert self.p is not None, "bind() fills p in"
        full = full_upload(support)
        return Traffic(full, PerClient(self.p * full + (1 - self.p) * self.compressor.message_bits(support)))
