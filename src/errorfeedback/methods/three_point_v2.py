"""3PCv2 (Richtarik et al. 2022): an unbiased compressor Q follows the gradient, a contractive one corrects,

    b = h + Q(z - y),   C_{h, y}(z) = b + C(z - b):   A = alpha,  B = (1 - alpha) omega.

The mean of z - b is y - h, and its variance at most omega ||z - y||^2. What is sent is Q(z - y) + C(z - b), with the index
of every entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from errorfeedback.compressors.base import Compressor, Operator, Unbiased
from errorfeedback.compressors.rand_k import RandK
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import Lifted, PerClient, Round
from errorfeedback.methods.three_point import Constants, ThreePoint, afterwards, check_full
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import Message, nonzeros


@dataclass(frozen=True)
class ThreePointV2(ThreePoint):
    """`follower`: Q.

    >>> import errorfeedback as ef
    >>> from errorfeedback.sparsity.support import full_support
    >>> method = ef.ThreePointV2(ef.TopK(1), ef.RandK(1))  # on four features alpha = 1/4, omega = 3
    >>> [constant.tolist() for constant in method.constants(full_support(2, 4))]
    [[0.25, 0.25], [2.25, 2.25]]
    """

    in_expectation: ClassVar[bool] = True
    announces: ClassVar[bool] = False
    follower: Unbiased

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.follower, Unbiased):
            raise ValueError(
                f"follower = {self.follower}; 3PCv2 follows the gradient by an unbiased compressor, say RandK(1)"
            )
        check_full(compressor=self.compressor, follower=self.follower)

    def constants(self, support: Support) -> Constants:
        alpha = self.alpha(support)
        return alpha, PerClient((1 - alpha) * self.follower.omega(support))

    def change(self, h: Lifted, y: Lifted, z: Lifted, compress: Operator, ctx: Round) -> Message:
        followed = self.follower.on(compress.support)(Lifted(z - y), ctx).lifted()
        corrected = compress(Lifted(z - (h + followed)), afterwards(ctx))
        return nonzeros(compress.support, corrected.add_to(followed))

    def most_bits(self, support: Support) -> PerClient:
        return PerClient(self.compressor.message_bits(support) + self.follower.message_bits(support))

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[ThreePointV2]:
        return [cls(TopK(1), RandK(1))]
