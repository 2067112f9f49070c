"""A number that every client tells in every round, ||grad f_i(x)||^2 in 16 bits, and a rule that asks for it:

gamma = min(longest, radius / sqrt(mean of the norms)).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import errorfeedback as ef


@ef.storable
@dataclass(frozen=True)
class Norms(ef.Probe):
    def widths(self, value_bits):
        return (16,)

    def tell(self, memory, node, ctx):
        return node.support.norms2(node.peek())[:, None], None

    def hear(self, numbers, hearing):
        return float(np.mean(numbers[:, 0]))


@ef.storable
@dataclass(frozen=True)
class Normalised(ef.StepSize):
    methods: ClassVar[tuple[type[ef.Method], ...]] = (ef.Method,)
    longest: float = 0.1
    radius: float = 1.0

    def ask(self, state):
        return (Norms(),)

    def next(self, state, theory, method, telemetry):
        return min(self.longest, self.radius / np.sqrt(telemetry.answers[Norms])), state
