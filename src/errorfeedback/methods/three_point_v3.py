"""3PCv3 (Richtarik et al. 2022): a three point compressor C', and what it misses once more,

    b = C'_{h, y}(z),   C_{h, y}(z) = b + C(z - b):   A = 1 - (1 - alpha)(1 - A'),  B = (1 - alpha) B'.

What is sent is the sum of both changes, with the index of every entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from errorfeedback.compressors.base import Compressor, Operator
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import Lifted, PerClient, Round
from errorfeedback.methods.clag import CLAG
from errorfeedback.methods.three_point import Constants, ThreePoint, afterwards, check_full
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import Message, nonzeros


@dataclass(frozen=True)
class ThreePointV3(ThreePoint):
    """`inner`: C', any method of this family.

    >>> import errorfeedback as ef
    >>> from errorfeedback.sparsity.support import full_support
    >>> method = ef.ThreePointV3(ef.TopK(3), ef.CLAG(ef.TopK(3), zeta=2.0))  # on four features A' = 1/2, B' = 2
    >>> [constant.tolist() for constant in method.constants(full_support(1, 4))]
    [[0.875], [0.5]]
    """

    announces: ClassVar[bool] = False
    inner: ThreePoint

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.inner, ThreePoint):
            raise ValueError(f"inner = {self.inner}; 3PCv3 corrects a three point compressor, say CLAG(TopK(1))")
        check_full(compressor=self.compressor, inner=self.inner.compressor)

    @property
    def in_expectation(self) -> bool:  # type: ignore[override]
        """As of the inner one."""
        return self.inner.in_expectation

    def bind(self, support: Support) -> ThreePointV3:
        self.compressor.check(support)
        return ThreePointV3(self.compressor, self.inner.bind(support))

    def constants(self, support: Support) -> Constants:
        left = 1 - self.alpha(support)
        A, B = self.inner.constants(support)
        return PerClient(1 - left * (1 - A)), PerClient(left * B)

    def change(self, h: Lifted, y: Lifted, z: Lifted, compress: Operator, ctx: Round) -> Message:
        support = compress.support
        first = self.inner.change(h, y, z, self.inner.compressor.on(support), ctx).lifted()
        corrected = compress(Lifted(z - (h + first)), afterwards(ctx))
        return nonzeros(support, corrected.add_to(first))

    def most_bits(self, support: Support) -> PerClient:
        return PerClient(self.compressor.message_bits(support) + self.inner.most_bits(support))

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[ThreePointV3]:
        return [cls(TopK(1), CLAG(TopK(1), zeta=5.0))]
