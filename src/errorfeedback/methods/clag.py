"""CLAG, and LAG (Chen et al. 2018; both as in Richtarik et al. 2022): clients that are lazy,

    C_{h, y}(z) = h + C(z - h)  where  ||z - h||^2 > zeta ||z - y||^2,   and h itself elsewhere: nothing is sent.

A = 1 - sqrt(1 - alpha),  B = max((1 - alpha)/A, zeta). LAG is `CLAG(Identity(), zeta)`: A = 1, B = zeta; EF21 is zeta = 0. A
client that keeps silent says so, in a frame of four bytes: nobody else can know.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Compressor, Operator
from errorfeedback.compressors.identity import Identity
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import Lifted, PerClient, Round
from errorfeedback.methods.three_point import Constants, ThreePoint, markov
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import Message


@dataclass(frozen=True)
class CLAG(ThreePoint):
    """Compressed lazy aggregation; `zeta`: how much error, against the change of the gradient, is not worth a message.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=40, m=5, c=4)
    >>> runs = [ef.solve(problem, ef.CLAG(ef.TopK(2), zeta), ef.Constant(0.02), rounds=300) for zeta in (0.0, 1000.0)]
    >>> [int(run.history["uplink_bits"][-1]) // 8 // problem.n for run in runs]  # bytes up per client
    [6561, 1992]
    >>> bool(runs[1].history["f"][-1] < runs[0].history["f"][-1])
    True
    """

    announces: ClassVar[bool] = False
    zeta: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isfinite(self.zeta) and self.zeta >= 0):
            raise ValueError(
                f"zeta = {self.zeta}; the share of the change that is left unsent must be finite and at least 0"
            )

    def constants(self, support: Support) -> Constants:
        A, B = markov(self.alpha(support))
        return A, PerClient(np.maximum(B, self.zeta))

    def change(self, h: Lifted, y: Lifted, z: Lifted, compress: Operator, ctx: Round) -> Message:
        missing, norms2 = Lifted(z - h), compress.support.norms2
        speaks = norms2(missing) > self.zeta * norms2(Lifted(z - y))
        return compress(missing, ctx).only(speaks)

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[CLAG]:
        return [cls(TopK(1), zeta=5.0), cls(Identity(), zeta=2.0)]
