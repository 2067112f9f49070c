"""3PCv5, or biased MARINA (Richtarik et al. 2022): MARINA with a contractive compressor,

    C_{h, y}(z) = z  with probability p,   else  h + C(z - y):   A = 1 - sqrt(1 - p),  B = (1 - p)(1 - alpha)/A.

The coin is keyed by (seed, round): clients and server toss the same one, and it crosses no wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Compressor, Operator
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import Lifted, PerClient, Round
from errorfeedback.keyed import COIN, uniform
from errorfeedback.methods.base import full_upload
from errorfeedback.methods.three_point import Constants, ThreePoint
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import KnownLayout, Message


@dataclass(frozen=True)
class ThreePointV5(ThreePoint):
    """Compressed differences of gradients, and with probability `p` whole gradients.

    >>> import errorfeedback as ef
    >>> from errorfeedback.sparsity.support import full_support
    >>> method = ef.ThreePointV5(ef.TopK(1), p=0.75)
    >>> [constant.tolist() for constant in method.constants(full_support(1, 4))]
    [[0.5], [0.375]]
    >>> [method.synchronises(ef.Round(t, seed=0)) for t in range(1, 6)]  # everybody tosses the same coin
    [False, True, False, True, True]
    """

    in_expectation: ClassVar[bool] = True
    p: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.p <= 1:
            raise ValueError(f"p = {self.p}; the probability of a full upload must be in (0, 1]")

    def synchronises(self, ctx: Round) -> bool:
        """Whether this is a round of full gradients."""
        return bool(uniform(ctx.seed, ctx.t, COIN) < self.p)

    def constants(self, support: Support) -> Constants:
        A = 1 - np.sqrt(1 - self.p)
        return PerClient(np.full(support.n, A)), PerClient((1 - self.p) * (1 - self.alpha(support)) / A)

    def change(self, h: Lifted, y: Lifted, z: Lifted, compress: Operator, ctx: Round) -> Message:
        return compress.everything(Lifted(z - h)) if self.synchronises(ctx) else compress(Lifted(z - y), ctx)

    def known_change(self, compress: Operator, ctx: Round) -> KnownLayout:
        return KnownLayout(compress.whole, None) if self.synchronises(ctx) else compress.known(ctx)

    def most_bits(self, support: Support) -> PerClient:
        return PerClient(self.p * full_upload(support) + (1 - self.p) * self.compressor.message_bits(support))

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[ThreePointV5]:
        return [cls(TopK(1), p=0.2)]
