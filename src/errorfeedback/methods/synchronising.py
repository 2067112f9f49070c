"""Methods that send everything with probability p, and differences otherwise. The coin is keyed by (seed, round): clients
and server toss the same one, and it crosses no wire.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from errorfeedback.compressors.base import Compressor, Operator, Unbiased
from errorfeedback.core import Model, PerClient, Round
from errorfeedback.keyed import COIN, uniform
from errorfeedback.methods.base import Method, Traffic, full_upload
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import KnownLayout


@dataclass(frozen=True)
class Synchronising(Method):
    """`p`: how often gradients are sent in full; None is the share of entries that the compressor sends, the usual
    choice."""

    requires: ClassVar[type[Compressor]] = Unbiased  # type: ignore[type-abstract]
    in_expectation: ClassVar[bool] = True
    memory: ClassVar[int] = 1
    p: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.p is not None and not 0 < self.p <= 1:
            raise ValueError(f"p = {self.p}; the probability of a full upload must be in (0, 1]")

    def bind(self, support: Support) -> Self:
        self.compressor.check(support)
        return self if self.p is not None else replace(self, p=self.compressor.density(support))

    def synchronises(self, ctx: Round) -> bool:
        """Whether this is a round of full gradients."""
        assert self.p is not None, "bind() fills p in"
        return bool(uniform(ctx.seed, ctx.t, COIN) < self.p)

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
