"""Natural compression (Horvath et al. 2019): random rounding to a power of two, in few bits below the largest entry.

The levels are 0 and 1, 2, 4, ..., 2^E units, E = 2^(b-1) - 2 for b bits; the unit is the largest magnitude over 2^E, rounded
up by a share of at most eta = 2^-5. An entry at q units has the variance (q - a)(b - q) unit^2 between its levels a and b.
For every lambda >= 0 this is at most lambda q^2 + phi, where phi is the largest value of (q - a)(b - q) - lambda q^2:

    1/(4 (1 + lambda))                       for a = 0, b = 1 (at q = 1/(2 (1 + lambda)));
    4^k (9/(4 (1 + lambda)) - 2) <= 0        for a = 2^k, b = 2^(k+1), once lambda >= 1/8.

The largest entry is at L = 2^E/(1 + eta) units or more; (q - a)(b - q) - lambda q^2 falls from there on, from v - lambda L^2
with v = (L - 2^(E-1))(2^E - L). So for a block of d entries and lambda >= 1/8 the sum of all is at most 0 where

    v - lambda L^2 + (d - 1)/(4 (1 + lambda)) <= 0:   omega = max(1/8, the root of the quadratic).

With 5 bits that is 1/8 up to 30 million entries: the published omega, in 5 bits in place of 9 (or 12 for float64).
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
class Natural(RandomLevels):
    """`bits` of every entry (3 to 9); `block`: how many entries share a unit (None: all of a client's).

    >>> from errorfeedback.sparsity.support import full_support
    >>> Natural(5).omega(full_support(1, 10**6)), Natural(4).omega(full_support(1, 10**4)).round(3)
    (array([0.125]), array([0.46]))
    """

    bits: int = 5
    block: int | None = None

    def __post_init__(self) -> None:
        if self.coding.each < 3:
            raise ValueError(f"bits = {self.bits}; natural compression needs 3 at least: a sign and two powers of two")

    @property
    def coding(self) -> Codebook:
        return Codebook(self.bits, 0, self.block)

    @property
    def reach(self) -> int:
        return int(self.coding.top)

    @property
    def by_norm(self) -> bool:
        return False

    def omega(self, support: Support) -> PerClient:
        d, top = np.minimum(support.sizes, self.coding.length), self.coding.top
        L = top / (1 + EXCESS)
        v = (L - top / 2) * (top - L)
        # L^2 lambda^2 + (L^2 - v) lambda - (v + (d - 1)/4) = 0, in units of the largest entry
        p, q = (1 - v / L**2) / 2, (v + (d - 1) / 4) / L**2
        return PerClient(np.maximum(1 / 8, np.sqrt(p**2 + q) - p))

    @classmethod
    def examples(cls) -> Sequence[Natural]:
        return [cls(5)]
