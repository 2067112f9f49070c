"""Values in fewer bits (ours): what a compressor sends, rounded to the nearest number of 16 or 32 bits.

The bits are the leading ones of a float64 (`wire.truncated`): its range stays, so that nothing overflows and nothing small
is lost on the way (an IEEE half ends at 65,504 and at 6e-8, which gradients pass in both directions). A value is off by at
most eps of itself, eps = 2^-5 or 2^-21. Where a compressor sends a set S of the entries of u as they are, with sum_S u_j^2
>= alpha ||u||^2 (all of ours do):

    ||C(u) - u||^2 <= eps^2 sum_S u_j^2 + ||u||^2 - sum_S u_j^2 <= (1 - (1 - eps^2) alpha) ||u||^2.

Both sides go on with the rounded value; the error stays with the client and is sent later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from errorfeedback.compressors.base import Contractive, Operator
from errorfeedback.compressors.participating import Participating
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import VALUE_BITS, Lifted, PerClient, Round
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.frames import Frames
from errorfeedback.wire.message import KnownLayout, Message
from errorfeedback.wire.truncated import relative_error, truncated

LENGTHS = (16, 32)


@dataclass(frozen=True)
class Rounded(Contractive):
    """A contractive compressor whose values take 16 or 32 bits.

    >>> import numpy as np
    >>> from errorfeedback.sparsity.support import full_support
    >>> Rounded(TopK(1)).on(full_support(1, 3))(np.array([1.0, -np.pi, 2.0]), Round(0, 0)).lifted()
    array([ 0.   , -3.125,  0.   ])
    """

    compressor: Contractive
    value_bits: int = 16

    def __post_init__(self) -> None:
        if not isinstance(self.compressor, Contractive):
            raise ValueError(f"Rounded needs a contractive compressor, and {self.compressor} is not")
        if self.value_bits not in LENGTHS:
            raise ValueError(f"value_bits = {self.value_bits!r}; it must be one of {', '.join(map(str, LENGTHS))}")

    @property
    def deterministic(self) -> bool:  # type: ignore[override]
        return self.compressor.deterministic

    @property
    def always(self) -> bool:  # type: ignore[override]
        return self.compressor.always

    def check(self, support: Support) -> None:
        self.compressor.check(support)

    def alpha(self, support: Support) -> PerClient:
        return PerClient((1 - relative_error(self.value_bits) ** 2) * self.compressor.alpha(support))

    def entries(self, support: Support) -> PerClient:
        return self.compressor.entries(support)

    def index_bits(self, support: Support) -> PerClient:
        return self.compressor.index_bits(support)

    def bits(self, support: Support) -> PerClient:
        return PerClient(self.compressor.bits(support) - (VALUE_BITS - self.value_bits) * self.entries(support))

    def on(self, support: Support) -> Operator:
        return _Rounding(self.compressor.on(support), self.value_bits)

    @classmethod
    def examples(cls) -> Sequence[Rounded]:
        return [cls(TopK(1)), cls(TopK(2), 32), cls(Participating(TopK(1), 0.5))]


class _Rounding(Operator):
    def __init__(self, inner: Operator, value_bits: int) -> None:
        super().__init__(inner.support, replace(inner.frames, value_bits=value_bits))
        self.inner, self.value_bits, self.seen = inner, value_bits, inner.frames

    def __call__(self, u: Lifted, ctx: Round) -> Message:
        sent = self.inner(u, ctx)
        values = truncated(sent.values, self.value_bits).astype(u.dtype, copy=False)
        return Message(self.support, sent.positions, values, self._shorter(sent.frames))

    def known(self, ctx: Round) -> KnownLayout:
        inner = self.inner.known(ctx)
        return KnownLayout(self._shorter(inner.frames), inner.positions)

    def _shorter(self, frames: Frames) -> Frames:
        if frames is not self.seen:  # mostly they are the same in every round
            self.seen, self.frames = frames, replace(frames, value_bits=self.value_bits)
        return self.frames
