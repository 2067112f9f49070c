"""3PCv4 (Richtarik et al. 2022): EF21 with two compressors, the second for what the first misses,

    b = h + C'(z - h),   C_{h, y}(z) = b + C(z - b).

C' and then C are one compressor with 1 - alpha~ = (1 - alpha)(1 - alpha'), so A = 1 - sqrt(1 - alpha~) and
B = (1 - alpha~)/A. What is sent is the sum of both messages, with the index of every entry.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from errorfeedback.compressors.base import Compressor, Contractive, Operator
from errorfeedback.compressors.rand_k import ContractiveRandK
from errorfeedback.core import Lifted, PerClient, Round
from errorfeedback.methods.three_point import Constants, ThreePoint, afterwards, check_full, markov
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import Message, nonzeros


@dataclass(frozen=True)
class ThreePointV4(ThreePoint):
    """`first`: C', for instance entries at random, after which `compressor` takes the largest of the others.

    >>> import errorfeedback as ef
    >>> from errorfeedback.sparsity.support import full_support
    >>> method = ef.ThreePointV4(ef.TopK(2), ef.RandK(2).contractive())  # 1/2 and 1/2 of four features are 3/4 together
    >>> [constant.tolist() for constant in method.constants(full_support(1, 4))]
    [[0.5], [0.5]]
    """

    announces: ClassVar[bool] = False
    first: Contractive

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.first, Contractive):
            raise ValueError(f"first = {self.first}; both compressors of 3PCv4 are contractive (RandK has .contractive())")
        check_full(compressor=self.compressor, first=self.first)

    @property
    def in_expectation(self) -> bool:  # type: ignore[override]
        """Where the first compressor draws."""
        return not self.first.deterministic

    def constants(self, support: Support) -> Constants:
        return markov(PerClient(1 - (1 - self.alpha(support)) * (1 - self.first.alpha(support))))

    def change(self, h: Lifted, y: Lifted, z: Lifted, compress: Operator, ctx: Round) -> Message:
        support = compress.support
        first = self.first.on(support)(Lifted(z - h), ctx).lifted()
        corrected = compress(Lifted(z - (h + first)), afterwards(ctx))
        return nonzeros(support, corrected.add_to(first))

    def most_bits(self, support: Support) -> PerClient:
        return PerClient(self.compressor.message_bits(support) + self.first.message_bits(support))

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[ThreePointV4]:
        return [cls(ContractiveRandK(1), ContractiveRandK(1))]
