"""Answers as fine as the step (ours): few bits for every entry, and more of them where the step came in more.

A downlink that fits its coding (`downlinks.fitted_step`) takes as few bits a value as the direction's model of the loss
allows: 4 to 6 on most problems, and more where a step goes along a valley. There the gradient changes little, a pair (s, y)
is soon more noise than change, and a quasi-Newton direction crawls. Both sides know in how many bits the step came, so that
nothing has to be said about the answer:

    a step in at most 6 bits a value:  4 bits an entry,  PowersOfTwo(4)
    in at most 8:                      8 bits,           SmallFloat(4, 3)
    in at most 16:                     16 bits,          SmallFloat(6, 9)
    in more:                           24 bits,          SmallFloat(6, 17)

and not fewer than `least`. alpha is that of the coarsest. Where the downlink has one coding only, or nobody moves, the
coarsest is what is sent. What it does for hard problems: docs/theory.md, section 14.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from errorfeedback.compressors.base import Contractive, Operator
from errorfeedback.compressors.few_bits import FewBits
from errorfeedback.compressors.powers_of_two import PowersOfTwo
from errorfeedback.compressors.small_float import SmallFloat
from errorfeedback.core import Lifted, PerClient, Round
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.coding import Coding
from errorfeedback.wire.message import KnownLayout, Message

FORMS: dict[int, tuple[int, int]] = {4: (3, 0), 6: (3, 2), 8: (4, 3), 16: (6, 9), 24: (6, 17)}
"""Bits of an entry: those of its exponent, and its digits."""
STEPS = {6: 4, 8: 8, 16: 16}
"""Up to so many bits of a step: bits of the answer."""
FINEST = 24
BLOCK = 512
"""Entries that share a unit: it costs 1% of 4 bits, and a client of many features loses its small ones without."""


@dataclass(frozen=True)
class FittedAnswer(Contractive):
    """From `least` bits an entry on (4, 6, 8, 16 or 24); `block`: how many entries share a unit (None: all of a client's).

    >>> from errorfeedback.sparsity.support import full_support
    >>> answer, support = FittedAnswer(), full_support(1, 1000)
    >>> [answer.on(support).known(Round(1, 0, bits)).frames.coding.each for bits in (0, 6, 7, 8, 10, 16, 24)]
    [4, 4, 8, 8, 16, 16, 24]
    """

    selects: ClassVar[bool] = False
    least: int = 4
    block: int | None = BLOCK

    def __post_init__(self) -> None:
        if isinstance(self.least, bool) or self.least not in FORMS:
            raise ValueError(f"least = {self.least!r}; an answer has {', '.join(map(str, FORMS))} bits an entry")
        self.coding  # noqa: B018  (which refuses what cannot be)

    @property
    def stages(self) -> tuple[FewBits, ...]:
        """What is sent after steps of ever more bits."""
        return tuple(self._of(max(bits, self.least)) for bits in (*STEPS.values(), FINEST))

    def _of(self, bits: int) -> FewBits:
        exponent, digits = FORMS[bits]
        return SmallFloat(exponent, digits, self.block) if digits else PowersOfTwo(bits, self.block)

    @property
    def coding(self) -> Coding:
        return self.stages[0].coding

    def alpha(self, support: Support) -> PerClient:
        return self.stages[0].alpha(support)

    def entries(self, support: Support) -> PerClient:
        return self.stages[0].entries(support)

    def on(self, support: Support) -> Operator:
        return _Fitted([stage.on(support) for stage in self.stages])

    @classmethod
    def examples(cls) -> Sequence[FittedAnswer]:
        return [cls(block=4)]


class _Fitted(Operator):
    def __init__(self, stages: list[Operator]) -> None:
        super().__init__(stages[0].support, stages[0].frames)
        self.stages, self.ends = stages, list(STEPS)

    def _after(self, ctx: Round) -> Operator:
        return self.stages[bisect_left(self.ends, ctx.step_bits)]

    def __call__(self, u: Lifted, ctx: Round) -> Message:
        return self._after(ctx)(u, ctx)

    def track(self, g: Lifted, grads: Lifted, ctx: Round) -> Message:
        return self._after(ctx).track(g, grads, ctx)

    def known(self, ctx: Round) -> KnownLayout:
        return self._after(ctx).known(ctx)
