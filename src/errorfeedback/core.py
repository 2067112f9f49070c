"""The shapes every formula is written in, and the context of one round."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NewType, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
"""float64, or float32 in a problem of that precision."""
Integers: TypeAlias = NDArray[np.integer]

Model = NewType("Model", Floats)
"""A vector of R^d: one entry per active feature."""
Lifted = NewType("Lifted", Floats)
"""The clients' own coordinates one after the other: length sum_i |J_i|."""
PerClient = NewType("PerClient", Floats)
"""One number per client of the shard: length n."""
PerRow: TypeAlias = Floats
"""One number per row of data."""
PerColumn: TypeAlias = Floats
"""One number per column of the data, active or not: what users give and get."""

VALUE_BITS = 64
"""Bits of one float64 on the wire: what theory counts with. A run counts the precision it has."""
PRECISIONS = (np.dtype(np.float64), np.dtype(np.float32))
"""What data, memory and messages may be stored in."""
AUTHORS_VALUE_BITS = 32
"""The authors' plots charge 32 bits per value, and nothing for indices, the first upload or the downlink."""


def precision(dtype: DTypeLike) -> np.dtype[Any]:
    """The dtype, if a problem may be stored in it."""
    kind = np.dtype(dtype)
    if kind not in PRECISIONS:
        raise ValueError(f"dtype = {kind}; data, memory and messages are float64 or float32")
    return kind


@dataclass(frozen=True, eq=False)
class RowMemory:
    """Numbers that clients keep for what each of them has more or fewer of: rows, or pairs of features.

    >>> import numpy as np
    >>> memory = RowMemory(values=np.zeros(5), counts=np.array([2, 3]))  # two clients
    >>> len(memory.values) == int(memory.counts.sum())
    True
    """

    values: PerRow
    """Those of a client together, in client order."""
    counts: Integers
    """How many every client has."""


@dataclass(slots=True)
class Round:
    """Which round it is; random draws are keyed by (seed, t, client)."""

    t: int
    """0, 1, ..."""
    seed: int
    """Of the run."""
    step_bits: int = 0
    """Bits of a value of the step that led here, where the downlink chooses them, or of the Hessians that all clients tell
    with their answers, whichever are more; 0 where there are neither."""


@dataclass(slots=True)
class Point:
    """Where the clients stand: all at the same x, or each at a point of its own (lifted)."""

    shared: Model | None = None
    """x, where all stand at it."""
    own: Lifted | None = None
    """Every client's own point on its features, elsewhere."""

    def on(self, gather: Callable[[Model], Lifted]) -> Lifted:
        """Every client's own coordinates, whichever it is."""
        return gather(self.shared) if self.shared is not None else self._own

    @property
    def _own(self) -> Lifted:
        if self.own is None:
            raise ValueError("a Point needs x (shared) or one point per client (own)")
        return self.own


@dataclass(frozen=True)
class Sample:
    """Rows that a gradient is taken over: `size` of every client's rows (all, where it has fewer), without replacement.

    Which ones is keyed by (seed, t, client) and by `draw`, the number of the sample within its round.
    """

    size: int
    ctx: Round
    """The round that it is drawn in."""
    draw: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not isinstance(self.size, (int, np.integer)) or self.size < 1:
            raise ValueError(f"size = {self.size!r}; a sample needs a whole number of rows of at least 1")
