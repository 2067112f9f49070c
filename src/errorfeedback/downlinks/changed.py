"""Only the coordinates of x on J_i that changed, with their indices; all of them where that is shorter. Nothing is lost.

It pays where few features move in a round: rare features and few numbers up, or an L1 penalty that holds x at zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.core import Model
from errorfeedback.downlinks.base import Broadcast, Downlink, Step


@dataclass(frozen=True)
class Changed(Downlink):
    """x on J_i where it is not what it was."""

    lossless: ClassVar[bool] = True

    def send(self, state: None, x: Model, step: Step) -> tuple[Broadcast, None]:
        before = x.copy()
        step.take(x)
        return Broadcast(x, np.flatnonzero(x != before)), None

    def receive(self, state: None, x: Model, broadcast: Broadcast) -> None:
        x[broadcast.features] = broadcast.values[broadcast.features]

    @classmethod
    def examples(cls) -> Sequence[Changed]:
        return [cls()]
