"""EF21-BC on J_i (Fatkhullin et al. 2021): the server, too, sends only the M largest entries of a change.

    b = TopM(g - w),   w += b,   x -= gamma w,

where w is what all clients know of the direction. Each of them gets b on its own features, and gamma.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import errorfeedback as ef


@ef.storable
@dataclass(frozen=True)
class TopOfTheChange(ef.Downlink):
    numbers: ClassVar[int] = 1
    m: int = 1

    def start(self, x):
        return np.zeros_like(x)

    def send(self, w, x, step):
        change = step.direction - w
        largest = np.sort(np.argsort(-np.abs(change), kind="stable")[: self.m])
        b = ef.Broadcast(change, largest, (step.gamma,))
        w = self.receive(w, x, b)
        step.taken = -step.gamma * w
        return b, w

    def receive(self, w, x, b):
        w[b.features] += b.values[b.features]
        x -= b.numbers[0] * w
        return w

    @classmethod
    def examples(cls):
        return [cls(3)]
