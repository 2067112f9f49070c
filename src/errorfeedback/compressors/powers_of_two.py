"""Sign and a power of two (ours; Seide et al. 2014 send signs): 4 bits for every entry, and 2 bytes for their unit.

With b bits the levels are 0 and 1, 2, 4, ..., 2^E units, E = 2^(b-1) - 2: an entry in range is off by at most 1/3 of itself,
one below it by at most half a unit, 2^-(E+1) of the largest. The lemma of `few_bits` gives alpha; with 4 bits it is 0.89 up
to 2,000 entries to a unit, and 0.8 at 4,000.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from errorfeedback.compressors.few_bits import FewBits
from errorfeedback.wire.codebook import Codebook


@dataclass(frozen=True)
class PowersOfTwo(FewBits):
    """`bits` of every entry (2 to 9); `block`: how many entries share a unit (None: all of a client's).

    >>> import numpy as np, errorfeedback as ef
    >>> from errorfeedback.sparsity.support import full_support
    >>> support, u = full_support(1, 4), np.array([64.0, -47.0, 3.0, 0.4])
    >>> PowersOfTwo(bits=4).on(support)(u, ef.Round(0, 0)).lifted()
    array([ 64., -32.,   4.,   0.])
    >>> PowersOfTwo(bits=4).alpha(full_support(1, 1000)).round(3)
    array([0.889])
    """

    bits: int = 4
    block: int | None = None

    def __post_init__(self) -> None:
        self.coding  # noqa: B018  (which refuses what cannot be)

    @property
    def coding(self) -> Codebook:
        return Codebook(self.bits, 0, self.block)

    @classmethod
    def examples(cls) -> Sequence[PowersOfTwo]:
        return [cls(4), cls(3, block=4)]
