"""What a file gives in the end: rows, targets, clients, weights; and what stands between: a file that was read, whose
columns nobody has given a meaning yet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from errorfeedback.core import Floats
from errorfeedback.data.encoding import Encoding
from errorfeedback.data.reading import Reading


@dataclass(frozen=True, eq=False)
class Data:
    """y is None where the file has no target, clients and weights where it names none. `kept` says for every row of the
    file whether it is in A (None: all are). The notes are sentences for the user: what was decided, filled or left out."""

    A: sparse.csr_array
    y: NDArray[Any] | None
    clients: NDArray[Any] | None
    encoding: Encoding
    name: str
    weights: Floats | None = None
    kept: NDArray[Any] | None = None
    notes: tuple[str, ...] = ()
    called: tuple[Any, ...] = ()
    """What clients that are numbered across several files are called: by a column, or by their file. From the first on."""

    @property
    def file_rows(self) -> int:
        """Rows of the file, with those that were left out."""
        return int(self.A.shape[0]) if self.kept is None else len(self.kept)

    def take(self, rows: NDArray[Any]) -> Data:
        """Some of the rows, by their numbers or a mask."""
        y, clients, weights = (None if each is None else each[rows] for each in (self.y, self.clients, self.weights))
        return replace(self, A=sparse.csr_array(self.A[rows]), y=y, clients=clients, weights=weights, kept=None)


def stacked(parts: Sequence[Data]) -> Data:
    """The rows of several parts of the same data."""

    def joined(columns: Sequence[NDArray[Any] | None]) -> NDArray[Any] | None:
        there = [column for column in columns if column is not None]
        return np.concatenate(there) if there else None

    return replace(
        parts[0],
        A=sparse.csr_array(sparse.vstack([part.A for part in parts], format="csr")),
        y=joined([part.y for part in parts]),
        clients=joined([part.clients for part in parts]),
        weights=joined([part.weights for part in parts]),
        kept=None,
    )


class Raw(ABC):
    """One file as it is."""

    name: str
    path: Path

    @abstractmethod
    def summary(self) -> Any:
        """What an encoding is learned from: small, and the same on every process that sees it."""

    @staticmethod
    @abstractmethod
    def learn(summaries: Sequence[Any], reading: Reading) -> tuple[Encoding, list[str]]:
        """One encoding for the files with these summaries, and what is to be said about it."""

    @abstractmethod
    def encoded(self, encoding: Encoding, reading: Reading) -> Data:
        """The rows in that encoding; a file that contradicts it is refused."""
