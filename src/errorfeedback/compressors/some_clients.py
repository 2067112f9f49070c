"""Partial participation without a bias: client i answers with probability p_i, and what it sends counts 1/p_i times,

    C'(u) = C(u/p_i) with probability p_i, else 0:   E C'(u) = u,   omega' = (1 + omega)/p_i - 1,

since E||C'(u)||^2 = p_i E||C(u/p_i)||^2 <= (1 + omega)||u||^2/p_i. Every theorem about independent unbiased compressors
holds. `MARINA(SomeClients(C, p))` is MARINA with partial participation (Gorbunov et al. 2021, Algorithm 4) where each client
tosses a coin of its own; there r clients are drawn with replacement, and (1 + omega)/r takes the place of omega'/n, which
with r = p n is larger by 1/n. The server divides by n, never by the number of answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from errorfeedback.compressors.base import Operator, Unbiased
from errorfeedback.compressors.participating import Attendance, NowAndThen
from errorfeedback.compressors.rand_k import RandK
from errorfeedback.core import Lifted, PerClient, Round
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import KnownLayout, Message


@dataclass(frozen=True)
class SomeClients(NowAndThen, Unbiased):
    """An unbiased compressor whose clients draw independently, for those that answer; p: one probability, or one per client.

    >>> from errorfeedback.sparsity.support import full_support
    >>> SomeClients(RandK(1), p=0.5).omega(full_support(2, 5))
    array([9., 9.])
    """

    compressor: Unbiased

    def __post_init__(self) -> None:
        if not (isinstance(self.compressor, Unbiased) and self.compressor.independent):
            raise ValueError(
                f"SomeClients needs an unbiased compressor with independent draws, and {self.compressor} is none"
            )
        super().__post_init__()

    def omega(self, support: Support) -> PerClient:
        return PerClient((1 + self.compressor.omega(support)) / self.probabilities(support) - 1)

    @property
    def independent(self) -> bool:
        return True

    def on(self, support: Support) -> Operator:
        return _Weighted(Attendance(self.compressor.on(support), self.probabilities(support)), self.probabilities(support))

    @classmethod
    def examples(cls) -> Sequence[SomeClients]:
        return [cls(RandK(2), 0.5)]


class _Weighted(Operator):
    """An operator on u_i/p_i."""

    def __init__(self, inner: Operator, p: PerClient) -> None:
        super().__init__(inner.support, inner.frames)
        self.inner, self.p = inner, inner.support.repeat(p)

    def __call__(self, u: Lifted, ctx: Round) -> Message:
        return self.inner(Lifted((u / self.p).astype(u.dtype, copy=False)), ctx)

    def known(self, ctx: Round) -> KnownLayout:
        return self.inner.known(ctx)
