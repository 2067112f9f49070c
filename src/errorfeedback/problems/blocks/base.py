"""How the clients' rows are stored for the two products that every round makes: z = A x, and A_i' s for every client.

For a model of q outputs x is a matrix (features, q), z and s are (rows, q): q numbers in the place of each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numba
import numpy as np
from scipy import sparse

from errorfeedback.core import Integers, Lifted, Model, PerRow
from errorfeedback.sparsity.support import Support


@dataclass(frozen=True)
class Fill:
    """What the choice of a layout looks at."""

    nonzeros: int
    room: int
    """sum_i m_i |J_i|: what dense blocks would hold."""
    value: float | None
    """The value of all nonzeros, where they have the same."""
    outputs: int = 1
    """Numbers of the model per feature."""

    @classmethod
    def of(cls, lifted: sparse.csr_array, support: Support, rows: Integers) -> Fill:
        same = bool(np.all(lifted.data == lifted.data[0]))
        room = int(np.diff(rows) @ support.by_feature.sizes)
        return cls(int(lifted.nnz), room, float(lifted.data[0]) if same else None, support.outputs)

    @classmethod
    def of_all(cls, parts: Sequence[Fill]) -> Fill:
        """The same of several parts together."""
        value = parts[0].value if len({part.value for part in parts}) == 1 else None
        return cls(sum(part.nonzeros for part in parts), sum(part.room for part in parts), value, parts[0].outputs)


@dataclass(frozen=True, eq=False)
class Blocks(ABC):
    """The blocks A_i[:, J_i] of a shard. Sums run in an order that depends on the client alone: sharding changes no bit."""

    support: Support
    rows: Integers
    """(n + 1,): client i has the rows rows[i]:rows[i+1]."""

    apart: ClassVar[bool] = True
    """Whether the two products of a gradient read the rows one after the other, so that x can be read ahead (`look`)."""

    @classmethod
    @abstractmethod
    def fits(cls, fill: Fill) -> bool:
        """Whether this layout is a good one for such rows."""

    @classmethod
    @abstractmethod
    def make(cls, lifted: sparse.csr_array, support: Support, rows: Integers) -> Blocks: ...

    @abstractmethod
    def forward(self, x: Model, z: PerRow, work: Lifted) -> None:
        """z = A x; `work` is scratch."""

    @abstractmethod
    def backward(self, s: PerRow, out: Lifted) -> None:
        """out = A_i' s_i, lifted."""

    def separate(self) -> Blocks:
        """The same rows for clients that each stand at a point of their own: a lifted vector is read in place of x."""
        return replace(self, support=self.support.separate())

    def residual(self, x: Model, shares: PerRow, b: PerRow, out: Lifted, squares: PerRow | None = None) -> None:
        """out = A_i' (2 shares (A_i x - b_i)): the gradients of a weighted square; `squares` gets (A_i x - b_i)^2."""
        z = self.predictions
        self.forward(x, z, out)
        np.subtract(z, b, out=z)
        if squares is not None:
            np.square(z, out=squares)
        np.multiply(z, shares, out=z)
        np.multiply(z, 2.0, out=z)
        self.backward(z, out)

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The precision of the rows, and of all sums over them."""

    @property
    @abstractmethod
    def bytes(self) -> int:
        """What the stored rows take."""

    @classmethod
    @abstractmethod
    def describe(cls, support: Support) -> str:
        """The layout in words."""

    @cached_property
    def features(self) -> Integers:
        """The support's features, unsigned (no check for negative indices in the kernels) and as short as they can be."""
        return narrow(self.support.by_feature.indices, self.support.by_feature.d)

    @cached_property
    def predictions(self) -> PerRow:
        """Scratch for one number per row, or (rows, outputs)."""
        m, q = int(self.rows[-1]), self.support.outputs
        return np.empty(m if q == 1 else (m, q), dtype=self.dtype)


def narrow(numbers: Integers, limit: int) -> Integers:
    """The numbers, all below `limit`, in the shortest unsigned type of at least 16 bits."""
    return numbers.astype(np.uint16 if limit <= 2**16 else np.uint32)


def position_bits(support: Support) -> int:
    """The width of a position within a client's segment."""
    return 16 if support.r <= 2**16 else 32


def local_positions(lifted: sparse.csr_array, support: Support, rows: Integers) -> Integers:
    """The position of every entry within its client's segment."""
    positions: Integers = np.empty(len(lifted.indices), dtype=np.uint16 if position_bits(support) == 16 else np.uint32)
    _subtract_firsts(lifted.indices, lifted.indptr[rows], support.indptr, positions)
    return positions


@numba.njit(cache=True, nogil=True)
def _subtract_firsts(positions: Integers, entries: Integers, segments: Integers, out: Integers) -> None:
    for i in range(len(entries) - 1):
        for k in range(entries[i], entries[i + 1]):
            out[k] = positions[k] - segments[i]


SHARED = 1.5
"""Entries per position below which x is read once per entry, and not once per position and then again from a copy."""


def direct_features(lifted: sparse.csr_array, support: Support) -> Integers:
    """The feature of every entry, where a client's rows hardly share any (x is then read through these); else empty."""
    if lifted.nnz > SHARED * support.size:
        return np.empty(0, dtype=np.uint16)
    return narrow(support.indices[lifted.indices], support.d)


ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
"""Steps of an unsigned index: kernels need not check whether it is negative."""
FAR = 2**22
"""Bytes of a vector that does not stay in the near caches while rows stream by: at 2 MiB reading it ahead gained nothing, at
8 MiB a fifth."""
AHEAD = np.uint64(32)
"""How many entries before its use a number of such a vector is asked for."""


@numba.njit(cache=True, nogil=True)
def gather(features: Integers, x: Model, out: Lifted) -> None:
    """P x. A loop of its own: nothing waits for a load, so that many of them are under way at once."""
    for p in range(len(features)):
        out[p] = x[features[p]]
