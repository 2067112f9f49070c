"""Everybody takes the rounded step: s = -gamma direction (or what a proximal term makes of it) is rounded to few bits, and

    x+ = x + rounded(s)

on both sides. So the downlink has no error: the server's x is the clients' x, and what it does next starts from there. A
client gets the levels of its |J_i| features, and the unit, which is one for all d features.

One unit for all: with one for every block of features a client would get those of all blocks in which it owns something,
2 bytes for a byte where features are rare. Where steps differ by more than a factor of a hundred, `SmallFloat` keeps the
small ones.

The step that was taken differs from the wanted one by at most sqrt(1 - alpha) of it, alpha of the levels on R^d. Theorems
about step sizes speak of the wanted one. Where a proximal term wants x_j = 0, x_j comes near it and not to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from errorfeedback.compressors.few_bits import FewBits
from errorfeedback.compressors.rounded import coding_of
from errorfeedback.compressors.small_float import SmallFloat
from errorfeedback.compressors.uniform_levels import Uniform
from errorfeedback.core import Model
from errorfeedback.downlinks.base import Answers, Broadcast, Downlink, Step, whole
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.coding import Coding
from errorfeedback.wire.message import KnownLayout


@dataclass(frozen=True)
class RoundedStep(Downlink):
    """The step in few bits (`Uniform(8)`, `SmallFloat()`, ...), or in truncated floats of so many bits.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=20, d=60, m=3, c=4)
    >>> runs = [ef.solve(problem, ef.EF21(ef.PowersOfTwo(4)), ef.Constant(0.02), rounds=400, every=400, downlink=down)
    ...         for down in (ef.Whole(), ef.RoundedStep(ef.Uniform(8)))]
    >>> [int(run.history["downlink_bits"][-1]) // 8 // problem.n for run in runs]  # bytes down per client
    [39900, 7182]
    >>> bool(runs[1].history["f"][-1] < 1.01 * runs[0].history["f"][-1])
    True
    """

    values: int | FewBits = Uniform(8)  # noqa: RUF009  (frozen)
    """The few-bit compressor whose levels a number has, or how many bits of a float."""

    def __post_init__(self) -> None:
        if isinstance(self.values, FewBits) and self.values.coding.block is not None:
            raise ValueError(f"block = {self.values.coding.block}; a rounded step has one unit for all features")
        self.coding  # noqa: B018  (which refuses what cannot be)

    @property
    def coding(self) -> Coding:
        return coding_of(self.values)

    @property
    def codings(self) -> tuple[Coding, ...]:
        return (self.coding,)

    def send(self, state: None, x: Model, step: Step) -> tuple[Broadcast, None]:
        values, units = self.coding.rounded(step.vector(x), np.array([len(x)]))
        x += values
        step.taken = Model(values)
        return Broadcast(values, coding=self.coding, unit=float(units[0]) if len(units) else 0.0), None

    def receive(self, state: None, x: Model, broadcast: Broadcast) -> None:
        x[broadcast.features] += broadcast.values[broadcast.features]

    def known(self, support: Support, answers: Answers, coding: Coding) -> KnownLayout:
        return KnownLayout(whole(support, coding), None)

    @classmethod
    def examples(cls) -> Sequence[RoundedStep]:
        return [cls(), cls(SmallFloat(4, 3)), cls(20)]
