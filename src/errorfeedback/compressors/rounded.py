"""Values in fewer bits (ours): what a compressor selects, rounded.

Either each value by itself, to the nearest number of 13 to 64 bits (`wire.truncated`). The bits are the leading ones of a
float64: its range stays, so that nothing overflows and nothing small is lost on the way (an IEEE half ends at 65,504 and at
6e-8, which gradients pass in both directions). Or all values of a client together, to the levels of `PowersOfTwo`,
`Uniform` or `SmallFloat`: a few bits each, and a unit. Either way the values v that are sent become w with

    ||w - v||^2 <= (1 - a) ||v||^2,

a = 1 - eps^2 with eps = 2^(11 - bits), or alpha of the few bits on so many values. Where a compressor sends a set S of the
entries of u as they are, with sum_S u_j^2 >= alpha ||u||^2 (all that select do):

    ||C(u) - u||^2 <= (1 - a) sum_S u_j^2 + ||u||^2 - sum_S u_j^2 <= (1 - a alpha) ||u||^2.

Both sides go on with the rounded value; the error stays with the client and is sent later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from errorfeedback.compressors.base import Contractive, Operator
from errorfeedback.compressors.few_bits import FewBits, kept_share
from errorfeedback.compressors.participating import Participating
from errorfeedback.compressors.powers_of_two import PowersOfTwo
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import Lifted, PerClient, Round
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.coding import Coding
from errorfeedback.wire.frames import Frames
from errorfeedback.wire.message import KnownLayout, Message
from errorfeedback.wire.truncated import TruncatedFloats


def coding_of(values: int | FewBits) -> Coding:
    """Truncated floats of so many bits, or the levels of a few-bit compressor."""
    return values.coding if isinstance(values, FewBits) else TruncatedFloats(values)


@dataclass(frozen=True)
class Rounded(Contractive):
    """A contractive compressor whose values take 13 to 64 bits each, or few bits and a unit.

    >>> import numpy as np
    >>> from errorfeedback.sparsity.support import full_support
    >>> support, u = full_support(1, 4), np.array([1.0, -np.pi, 2.0, 0.1])
    >>> Rounded(TopK(1), 16).on(support)(u, Round(0, 0)).lifted()
    array([ 0.   , -3.125,  0.   ,  0.   ])
    >>> Rounded(TopK(2), PowersOfTwo(4)).on(support)(u, Round(0, 0)).lifted()
    array([ 0.     , -3.1875 ,  1.59375,  0.     ])
    """

    compressor: Contractive
    """Which entries are sent."""
    values: int | FewBits = 16
    """Bits of each, or the few-bit compressor whose levels they have."""
    selects: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.compressor, Contractive):
            raise ValueError(f"Rounded needs a contractive compressor, and {self.compressor} is not")
        if not self.compressor.selects:
            raise ValueError(f"Rounded needs a compressor that sends entries as they are, and {self.compressor} does not")
        self.coding  # noqa: B018  (which refuses what cannot be)

    @property
    def coding(self) -> Coding:
        return coding_of(self.values)

    @property
    def deterministic(self) -> bool:  # type: ignore[override]
        """As the compressor that selects."""
        return self.compressor.deterministic

    @property
    def always(self) -> bool:  # type: ignore[override]
        """As the compressor that selects."""
        return self.compressor.always

    @property
    def announces(self) -> bool:  # type: ignore[override]
        """As the compressor that selects."""
        return self.compressor.announces

    def check(self, support: Support) -> None:
        self.compressor.check(support)

    def alpha(self, support: Support) -> PerClient:
        return PerClient(kept_share(self.coding, self.most_entries(support)) * self.compressor.alpha(support))

    def entries(self, support: Support) -> PerClient:
        return self.compressor.entries(support)

    def most_entries(self, support: Support) -> PerClient:
        return self.compressor.most_entries(support)

    def index_bits(self, support: Support) -> PerClient:
        return self.compressor.index_bits(support)

    def message_bits(self, support: Support, coding: Coding | None = None) -> PerClient:
        return self.compressor.message_bits(support, self.coding if coding is None else coding)

    def on(self, support: Support) -> Operator:
        return _Rounding(self.compressor.on(support), self.coding)

    @classmethod
    def examples(cls) -> Sequence[Rounded]:
        return [cls(TopK(1)), cls(TopK(2), 29), cls(TopK(2), PowersOfTwo(4)), cls(Participating(TopK(1), 0.5))]


class _Rounding(Operator):
    def __init__(self, inner: Operator, coding: Coding) -> None:
        super().__init__(inner.support, replace(inner.frames, coding=coding))
        self.inner, self.coding, self.seen = inner, coding, inner.frames

    def __call__(self, u: Lifted, ctx: Round) -> Message:
        sent = self.inner(u, ctx)
        values, units = self.coding.rounded(sent.values, sent.frames.counts)
        return Message(self.support, sent.positions, values, self._shorter(sent.frames), units)

    def known(self, ctx: Round) -> KnownLayout:
        inner = self.inner.known(ctx)
        return KnownLayout(self._shorter(inner.frames), inner.positions)

    def _shorter(self, frames: Frames) -> Frames:
        if frames is not self.seen:  # mostly they are the same in every round
            self.seen, self.frames = frames, replace(frames, coding=self.coding)
        return self.frames
