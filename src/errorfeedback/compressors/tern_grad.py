"""TernGrad (Wen et al. 2017): 0 or +- the largest magnitude s, so that the mean is right:

    C(u)_j = s sign(u_j) with probability |u_j|/s, else 0,   E||C(u) - u||^2 = s ||u||_1 - ||u||^2.

With s = (1 + eta) ||u||_inf (the unit is rounded up by eta <= 2^-5) the worst u has one entry 1 and d - 1 entries t, where
(1 + (d-1) t)/(1 + (d-1) t^2) is largest at t = 1/(1 + sqrt d), with the value (1 + sqrt d)/2:

    omega = (1 + eta) (1 + sqrt d)/2 - 1,

and not 0, as it is taken for in places; with d = 10,000 it is 51. Clipping, which the authors add, is biased and left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from errorfeedback.compressors.random_levels import RandomLevels
from errorfeedback.core import PerClient
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.codebook import EXCESS, Codebook


@dataclass(frozen=True)
class TernGrad(RandomLevels):
    """2 bits of every entry; `block`: how many entries share a magnitude (None: all of a client's).

    >>> from errorfeedback.sparsity.support import full_support
    >>> TernGrad().omega(full_support(1, 100)).round(3), TernGrad(block=4).omega(full_support(1, 100)).round(3)
    (array([4.672]), array([0.547]))
    """

    block: int | None = None

    def __post_init__(self) -> None:
        self.coding  # noqa: B018  (which refuses what cannot be)

    @property
    def coding(self) -> Codebook:
        return Codebook(2, 0, self.block)

    @property
    def reach(self) -> int:
        return 1

    @property
    def by_norm(self) -> bool:
        return False

    def omega(self, support: Support) -> PerClient:
        d = np.minimum(support.sizes, self.coding.length)
        return PerClient((1 + EXCESS) * (1 + np.sqrt(d)) / 2 - 1)

    @classmethod
    def examples(cls) -> Sequence[TernGrad]:
        return [cls()]
