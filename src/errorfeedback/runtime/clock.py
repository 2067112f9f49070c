"""A clock that stops while metrics are computed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class Clock:
    """Seconds since construction, less the pauses, and those `already` on it."""

    def __init__(self, already: float = 0.0) -> None:
        self._start = perf_counter() - already

    @property
    def seconds(self) -> float:
        return perf_counter() - self._start

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing in here is counted."""
        begin = perf_counter()
        try:
            yield
        finally:
            self._start += perf_counter() - begin
