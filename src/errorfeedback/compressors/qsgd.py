"""QSGD (Alistarh et al. 2017): random rounding to `levels` equal parts of the norm.

The unit is ||u||/s rounded up by a share of at most eta = 2^-5, for s levels a side, so that ||u|| is at least
Q = s/(1 + eta) and at most s units. With f the fraction of an entry's q units its variance is f (1 - f) unit^2, and

    f (1 - f) <= 1/4   and   f (1 - f) <= q - q^2/s   (0 <= q <= s):

for q = k + f with k <= s - 1 the right-hand side (k + f)(1 - (k + f)/s) grows with s, and with s = k + 1 it is
(k + f)(1 - f)/s >= f (1 - f). Summed over d entries, with sum q <= sqrt(d) ||q||, and divided by ||q||^2 >= Q^2:

    omega = min(d/(4 Q^2), sqrt(d)/Q - 1/s)

(published: min(d/s^2, sqrt(d)/s)). The first is reached where entries are half way between levels, the second at s = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from errorfeedback.compressors.random_levels import RandomLevels
from errorfeedback.core import PerClient
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.codebook import EXCESS, MOST_BITS, Codebook


@dataclass(frozen=True)
class QSGD(RandomLevels):
    """`levels` a side (1: signs and zeros), in 1 + ceil(log2(levels + 1)) bits; `block`: how many entries share a norm.

    >>> from errorfeedback.sparsity.support import full_support
    >>> QSGD(7).coding.each, QSGD(7).omega(full_support(1, 100)).round(3)
    (4, array([0.543]))
    """

    levels: int = 7
    block: int | None = None

    def __post_init__(self) -> None:
        most = 2 ** (MOST_BITS - 1) - 1
        if isinstance(self.levels, bool) or not isinstance(self.levels, (int, np.integer)) or not 1 <= self.levels <= most:
            raise ValueError(f"levels = {self.levels!r}; it must be a whole number from 1 to {most}")
        self.coding  # noqa: B018  (which refuses what cannot be)

    @property
    def coding(self) -> Codebook:
        bits = 1 + int(self.levels).bit_length()
        return Codebook(bits, bits - 2, self.block)

    @property
    def reach(self) -> int:
        return self.levels

    @property
    def by_norm(self) -> bool:
        return True

    def omega(self, support: Support) -> PerClient:
        d, Q = np.minimum(support.sizes, self.coding.length), self.levels / (1 + EXCESS)
        return PerClient(np.minimum(d / (4 * Q**2), np.sqrt(d) / Q - 1 / self.levels))

    @classmethod
    def examples(cls) -> Sequence[QSGD]:
        return [cls(7), cls(1, block=3)]
