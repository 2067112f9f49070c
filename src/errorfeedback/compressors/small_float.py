"""Small floats that share a unit: with 4 bits of exponent and 3 digits, 8 bits for every entry.

The levels are those of a float with so many bits, from one unit on: an entry in range is off by at most 1/(2^(m+1) + 1) of
itself, m the digits, and one below it by at most half a unit; the range is about 2^(2^e) for e bits of exponent.
`PowersOfTwo` has no digits and `Uniform` no range; this is between them. The lemma of `few_bits` gives alpha; with 4 and 3
it is 0.9965 up to 100 million entries to a unit: the size of the largest does not matter to the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from errorfeedback.compressors.few_bits import FewBits
from errorfeedback.wire.codebook import Codebook


@dataclass(frozen=True)
class SmallFloat(FewBits):
    """1 + `exponent_bits` + `mantissa_bits` bits of every entry; `block`: how many share a unit (None: all of a client's).

    >>> from errorfeedback.sparsity.support import full_support
    >>> SmallFloat(4, 3).alpha(full_support(1, 10**6)).round(4)
    array([0.9965])
    """

    exponent_bits: int = 4
    mantissa_bits: int = 3
    block: int | None = None

    def __post_init__(self) -> None:
        for name in ("exponent_bits", "mantissa_bits"):
            if isinstance(getattr(self, name), bool) or not isinstance(getattr(self, name), int):
                raise ValueError(f"{name} = {getattr(self, name)!r}; it must be a whole number")
        self.coding  # noqa: B018  (which refuses what cannot be)

    @property
    def coding(self) -> Codebook:
        return Codebook(1 + self.exponent_bits + self.mantissa_bits, self.mantissa_bits, self.block)

    @classmethod
    def examples(cls) -> Sequence[SmallFloat]:
        return [cls(3, 2)]
