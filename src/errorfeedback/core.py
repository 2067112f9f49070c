"""The shapes every formula is written in, and the context of one round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
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
"""Bits of one float64 on the wire."""
AUTHORS_VALUE_BITS = 32
"""The authors' plots charge 32 bits per value, and nothing for indices, the first upload or the downlink."""


@dataclass(frozen=True, slots=True)
class Round:
    """What a client knows of the round it is in; random draws are keyed by (seed, t, client)."""

    t: int
    seed: int
    slope: bool = False
    """Whether the clients tell the slope that is left along their last move (`Ask.slope`)."""
