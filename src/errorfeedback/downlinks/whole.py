"""Every client gets its own coordinates of x, in every round: |J_i| values, and nobody has to remember anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.core import Model
from errorfeedback.downlinks.base import Answers, Broadcast, Downlink, Step
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.coding import Coding
from errorfeedback.wire.message import KnownLayout


@dataclass(frozen=True)
class Whole(Downlink):
    """x on J_i, |J_i| numbers in full to every client and round.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> both = [ef.solve(problem, ef.DGD(), ef.InverseL(), downlink=d, rounds=50) for d in (ef.Whole(), ef.FittedStep())]
    >>> bool(both[0].history["downlink_bits"][-1] > 3 * both[1].history["downlink_bits"][-1])
    True
    """

    lossless: ClassVar[bool] = True
    needs_everybody: ClassVar[bool] = False

    def send(self, state: None, x: Model, step: Step) -> tuple[Broadcast, None]:
        return step.take(x), None

    def receive(self, state: None, x: Model, broadcast: Broadcast) -> None:
        x[broadcast.features] = broadcast.values[broadcast.features]

    def known(self, support: Support, answers: Answers, coding: Coding) -> KnownLayout:
        positions = None if answers is None else np.flatnonzero(np.repeat(answers, support.sizes))
        return KnownLayout(Broadcast(np.empty(0)).frames(support, answers), positions)

    @classmethod
    def examples(cls) -> Sequence[Whole]:
        return [cls()]
