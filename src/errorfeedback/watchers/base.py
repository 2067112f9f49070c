"""A watcher sees every recorded row of a run, with the run's clock stopped:

    with ef.TqdmBar(rounds=5000) as bar:
        ef.solve(problem, method, stepsize, rounds=5000, watch=bar)

Any function of a row is one too; a row has the columns of the history that are known at that round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import isfinite
from types import TracebackType
from typing import Self


class RunWatcher(ABC):
    """Called with every row; closed at the end of `with`."""

    @abstractmethod
    def __call__(self, row: dict[str, float]) -> None:
        """A round was recorded."""

    @abstractmethod
    def close(self) -> None:
        """The run is over."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def measures(row: dict[str, float]) -> dict[str, float]:
    """What there is to plot over the rounds.

    >>> measures({"round": 3, "f": 0.5, "validation": float("nan")})
    {'f': 0.5}
    """
    return {name: float(value) for name, value in row.items() if name != "round" and isfinite(value)}
