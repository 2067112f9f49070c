"""How a model of named parameters is one vector, and what each client has of it.

Parameters stand one after the other in their framework's order, each flattened row by row. A *table* is a parameter of which
a client has some rows (embeddings: those that occur in its data); of every other parameter all clients have all numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import Integers
from errorfeedback.sparsity.support import runs


@dataclass(frozen=True)
class Parameter:
    """One of a model's parameters."""

    name: str
    shape: tuple[int, ...]
    table: bool = False

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def row(self) -> int:
        """Numbers of one row of a table."""
        return prod(self.shape[1:])

    def local(self, rows: int) -> tuple[int, ...]:
        """Its shape for a client that has that many of its rows."""
        return (rows, *self.shape[1:]) if self.table else self.shape


@dataclass(frozen=True, eq=False)
class ClientData:
    """One client's data, and the rows that it has of every table."""

    arrays: tuple[NDArray[Any], ...]
    """What the model reads: each has one entry (of any shape) per row of data, the row numbers of tables its own."""
    rows: tuple[Integers, ...]
    """For every table, ascending."""
    weight: float = 1.0
    """What f_i is multiplied with."""

    @property
    def m(self) -> int:
        """Rows of data."""
        return len(self.arrays[0])

    @property
    def kind(self) -> tuple[Any, ...]:
        """What two clients must have alike to be computed in one call."""
        return tuple((a.shape[1:], a.dtype.str) for a in self.arrays)


def owned_numbers(parameters: Sequence[Parameter], rows: Sequence[Integers]) -> Integers:
    """The numbers of the flat model that a client with these rows of the tables has, ascending.

    >>> owned_numbers([Parameter("items", (9, 2), table=True), Parameter("bias", (1,))], [np.array([0, 4])]).tolist()
    [0, 1, 8, 9, 18]
    """
    of_tables, start, parts = iter(rows), 0, []
    for p in parameters:
        parts.append(start + (runs(next(of_tables), p.row) if p.table else np.arange(p.size)))
        start += p.size
    return np.concatenate(parts)


def flat_size(parameters: Sequence[Parameter]) -> int:
    """Numbers of the whole model."""
    return sum(p.size for p in parameters)


def described(parameters: Sequence[Parameter], number: int) -> str:
    """What a number of the flat model is called.

    >>> described([Parameter("items", (9, 2), table=True), Parameter("bias", (1,))], 9)
    'items[4, 1]'
    """
    for p in parameters:
        if number < p.size:
            return f"{p.name}[{', '.join(str(k) for k in np.unravel_index(number, p.shape or (1,)))}]"
        number -= p.size
    raise ValueError(f"the model has no such number: {number} too many")
