"""||g - grad f(x)||^2. It needs the full gradient: only a simulation has it, and it is on no wire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.core import Floats, Round
from errorfeedback.methods.node import Node
from errorfeedback.probes.base import Hearing, Probe


@dataclass(frozen=True)
class FullGradient(Probe):
    """Nothing is told; the simulation looks.

    >>> import errorfeedback as ef
    >>> probe = ef.FullGradient()
    >>> probe.widths(64), probe.hear(np.empty((4, 0)), Hearing(4, 0.0, lambda: 0.0, true_error2=lambda: 0.25))
    ((), 0.25)
    """

    of_new_memory: ClassVar[bool] = True

    def widths(self, value_bits: int) -> tuple[int, ...]:
        return ()

    def tell(self, memory: None, node: Node, ctx: Round) -> tuple[Floats, None]:
        return np.empty((node.support.n, 0)), None

    def hear(self, numbers: Floats, hearing: Hearing) -> float:
        return hearing.true_error2()
