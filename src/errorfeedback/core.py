"""The shapes every formula is written in, and the context of one round."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
"""float64, or float32 in a problem of that precision."""
Integers: TypeAlias = NDArray[np.integer]

Model: TypeAlias = Floats
"""A vector of R^d: one entry per active feature."""
Lifted: TypeAlias = Floats
"""The clients' own coordinates one after the other: length sum_i |J_i|."""
PerClient: TypeAlias = Floats
"""One number per client of the shard: length n."""
PerRow: TypeAlias = Floats
"""One number per row of data."""

VALUE_BITS = 64
"""Bits of one float64 on the wire: what theory counts with. A run counts the precision it has."""
PRECISIONS = (np.dtype(np.float64), np.dtype(np.float32))
"""What data, memory and messages may be stored in."""
AUTHORS_VALUE_BITS = 32
"""The authors' plots charge 32 bits per value, and nothing for indices, the first upload or the downlink."""


def precision(dtype: DTypeLike) -> np.dtype[Any]:
    """The dtype, if a problem may be stored in it."""
    found = np.dtype(dtype)
    if found not in PRECISIONS:
        raise ValueError(f"dtype = {found}; data, memory and messages are float64 or float32")
    return found


@dataclass(frozen=True)
class Ask:
    """What a rule wants from every client in a round, beyond the message. What crosses the wire is counted."""

    G: bool = False
    """||g_i - grad f_i(x)||^2: one number."""
    sketch: int = 0
    """That many signed sums of g_i - grad f_i(x)."""
    full_gradient: bool = False
    """||g - grad f(x)||^2. It needs the full gradient: only a simulation has it, and it is on no wire."""
    slope: int = 0
    """e_i = <grad f_i(x) - g_i, x - x_last> in that many leading bits of a float64; g_i is the estimate that was in force
    (0 where clients keep none). It shrinks with the steps, so that few digits are enough at every scale."""
    loss: int = 0
    """f_i(x) in that many leading bits."""

    @cached_property
    def numbers(self) -> int:
        """Numbers up per client and round."""
        return self.G + self.sketch + bool(self.slope) + bool(self.loss)

    @cached_property
    def errors(self) -> bool:
        """Whether it is about g_i - grad f_i(x)."""
        return bool(self.G or self.sketch or self.full_gradient)

    def bits(self, value_bits: int) -> int:
        """Bits up per client and round, where a value of the run has that many."""
        return value_bits * (self.G + self.sketch) + self.slope + self.loss

    def widths(self, value_bits: int) -> tuple[int, ...]:
        """Bits of each number, in the order in which they are told: e_i, f_i, G_i, the sketch."""
        return (self.slope,) * bool(self.slope) + (self.loss,) * bool(self.loss) + (value_bits,) * (self.G + self.sketch)


NOTHING = Ask()


@dataclass(slots=True)
class Round:
    """What a client knows of the round it is in; random draws are keyed by (seed, t, client)."""

    t: int
    seed: int
    ask: Ask = NOTHING
