"""Equally spaced levels: 8 bits for every entry, and 2 bytes for their unit.

With b bits the levels are 0, 1, ..., 2^(b-1) - 1 units: every entry is off by at most half a unit, 2^-b of the largest or
little more. The lemma of `few_bits` gives alpha; with 8 bits it is 0.98 at 1,024 entries to a unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from errorfeedback.compressors.few_bits import FewBits
from errorfeedback.wire.codebook import Codebook


@dataclass(frozen=True)
class Uniform(FewBits):
    """`bits` of every entry (2 to 16); `block`: how many entries share a unit (None: all of a client's).

    >>> from errorfeedback.sparsity.support import full_support
    >>> Uniform(8).alpha(full_support(1, 1024)).round(3)
    array([0.983])
    """

    bits: int = 8
    block: int | None = None

    def __post_init__(self) -> None:
        self.coding  # noqa: B018  (which refuses what cannot be)

    @property
    def coding(self) -> Codebook:
        return Codebook(self.bits, self.bits - 2, self.block)

    @classmethod
    def examples(cls) -> Sequence[Uniform]:
        return [cls(8)]
