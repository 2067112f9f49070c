"""e_i = <grad f_i(x) - g_i, x - x_last>, where g_i is the estimate that was in force (0 where clients keep none). It shrinks
with the steps, so that few digits are enough at every scale. The server adds <(1/n) sum g_i, x - x_last>, which it knows:
together <grad f(x), x - x_last>.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.core import VALUE_BITS, Floats, Lifted, Model, Round
from errorfeedback.methods.node import Node
from errorfeedback.probes.base import Hearing, Probe
from errorfeedback.sparsity.support import Support


@dataclass(frozen=True)
class Slopes(Probe):
    """What is left of the slope since the last time it was asked for, in that many leading bits of a float64."""

    spares_absent: ClassVar[bool] = True
    bits: int = VALUE_BITS
    """Of every client's number."""

    def widths(self, value_bits: int) -> tuple[int, ...]:
        return (self.bits,)

    def tell(self, last: Lifted | None, node: Node, ctx: Round) -> tuple[Floats, Lifted]:
        here = node.own()
        if last is None:
            return np.zeros((node.support.n, 1)), here
        error = node.error()
        unknown = node.peek() if error is None else -error
        return node.support.sums(Lifted(unknown * (here - last)))[:, None], here

    def recalled(self, support: Support, x: Model) -> Lifted:
        return support.gather(x)

    def hear(self, numbers: Floats, hearing: Hearing) -> float:
        return float(np.mean(numbers[:, 0])) + hearing.known_slope
