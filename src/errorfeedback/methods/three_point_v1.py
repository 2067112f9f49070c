"""3PCv1 (Richtarik et al. 2022): the compressed change of the gradient since the last round, on top of that
gradient itself,

    C_{h, y}(z) = y + C(z - y):   A = 1,  B = 1 - alpha.

The server must know y, so a client sends all of its |J_i| values in every round: a method for comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from errorfeedback.compressors.base import Compressor, Operator
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import Lifted, PerClient, Round
from errorfeedback.methods.base import full_upload
from errorfeedback.methods.three_point import Constants, ThreePoint
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import KnownLayout, Message


@dataclass(frozen=True)
class ThreePointV1(ThreePoint):
    """What error feedback would be if the last gradient were known.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=40, m=5, c=4)
    >>> methods = ef.DGD(), ef.ThreePointV1(ef.TopK(1))
    >>> runs = [ef.solve(problem, method, ef.Constant(0.02), rounds=100) for method in methods]
    >>> [int(run.history["uplink_bits"][-1]) // 8 // problem.n for run in runs]  # no byte is saved
    [13341, 13341]
    >>> [round(float(run.history["f"][-1]), 4) for run in runs]
    [1.3628, 1.3553]
    """

    def constants(self, support: Support) -> Constants:
        return PerClient(np.ones(support.n)), PerClient(1 - self.alpha(support))

    def change(self, h: Lifted, y: Lifted, z: Lifted, compress: Operator, ctx: Round) -> Message:
        return compress.everything(Lifted(y + compress(Lifted(z - y), ctx).lifted() - h))

    def known_change(self, compress: Operator, ctx: Round) -> KnownLayout:
        return KnownLayout(compress.whole, None)

    def most_bits(self, support: Support) -> PerClient:
        return full_upload(support)

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[ThreePointV1]:
        return [cls(TopK(1))]
