"""What a file gives in the end: rows, targets, clients, weights; and what stands between: a file that was read, whose
columns nobody has given a meaning yet.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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

    @property
    def file_rows(self) -> int:
        """Rows of the file, with those that were left out."""
        return int(self.A.shape[0]) if self.kept is None else len(self.kept)


class Raw(ABC):
    """One file as it is."""

    name: str

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
