"""f_i(x): the server adds its proximal term to their mean, f(x) + R(x)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import VALUE_BITS, Floats, PerClient, Round
from errorfeedback.methods.node import Node
from errorfeedback.probes.base import Hearing, Probe


@dataclass(frozen=True, eq=False)
class KnownLosses:
    """What is known of every f_i at a point."""

    values: PerClient
    """(n,): as it was told, or is believed of who was away."""
    heard: NDArray[np.bool_]
    """(n,): who told it."""


@dataclass(frozen=True)
class Losses(Probe):
    """Every client's loss, in that many leading bits of a float64."""

    wants_values: ClassVar[bool] = True
    spares_absent: ClassVar[bool] = True
    bits: int = VALUE_BITS
    """Of every client's number."""

    def widths(self, value_bits: int) -> tuple[int, ...]:
        return (self.bits,)

    def tell(self, memory: None, node: Node, ctx: Round) -> tuple[Floats, None]:
        return node.values()[:, None], None

    def hear(self, numbers: Floats, hearing: Hearing) -> float:
        return float(np.mean(numbers[:, 0])) + hearing.penalty()
