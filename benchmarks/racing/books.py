"""What an exchange costs: values of 8 bytes, 4 bytes of head per message, 8 bytes for a loss; a client sends and gets its
J_i only. A curve holds f after every exchange and what had crossed the wire by then: per client on average, and for the
client with the most features, which is the slowest on equal links.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from racing.objective import Objective, Vector

HEAD, VALUE, LOSS = 4, 8, 8
"""Bytes."""


class Link(NamedTuple):
    """Bits per second up and down, and the seconds that any message takes on top."""

    name: str
    up: float
    down: float
    latency: float


LINKS = (
    Link("1M/10M/50ms", 1e6, 1e7, 0.05),
    Link("100k/1M/20ms", 1e5, 1e6, 0.02),
    Link("1G/1G/0.1ms", 1e9, 1e9, 1e-4),
    Link("10k/50k/500ms", 1e4, 5e4, 0.5),
)


@dataclass(frozen=True, eq=False)
class Curve:
    """One entry per exchange; bytes are totals so far."""

    f: Vector
    exchanges: Vector
    up: Vector
    down: Vector
    slowest_up: Vector
    slowest_down: Vector

    @property
    def total(self) -> Vector:
        return self.up + self.down

    def seconds(self, link: Link) -> Vector:
        """Two latencies per exchange; the slowest client decides."""
        return 2 * link.latency * self.exchanges + 8 * self.slowest_up / link.up + 8 * self.slowest_down / link.down

    def first(self, level: float) -> int | None:
        """The first entry with f at or below the level."""
        there = np.flatnonzero(self.f <= level)
        return int(there[0]) if len(there) else None


class Over(Exception):  # noqa: N818  (nothing went wrong)
    """The run is there, lost, or has made all its exchanges."""


class Books:
    """Writes a curve while a method runs; raises `Over` at the target, after `most` exchanges, or where f is lost."""

    def __init__(self, objective: Objective, target: float, most: int) -> None:
        self.objective, self.target, self.most = objective, target, most
        self.slow = int(objective.sizes.argmax())
        self.exchanges, self.entries = 0, list[tuple[float, ...]]()
        self.up, self.down = np.zeros(objective.n), np.zeros(objective.n)
        self.one = HEAD + VALUE * objective.sizes.astype(np.float64)
        """A message with a number for every feature of the client."""

    def exchange(self, up: Vector | float, down: Vector | float) -> None:
        """Every client is told `down` bytes and answers with `up` bytes."""
        self.exchanges += 1
        self.also(up)
        self.down += down

    def also(self, up: Vector | float) -> None:
        """More in the answer of the last exchange: what need not have been sent where f was good enough."""
        self.up += up

    def write(self, f: float) -> None:
        """f at the point that the last exchange was about, or led to."""
        slow = self.slow
        self.entries.append((f, self.exchanges, self.up.mean(), self.down.mean(), self.up[slow], self.down[slow]))
        if f <= self.target or self.exchanges >= self.most or not f <= 10 * self.objective.start:
            raise Over

    @property
    def curve(self) -> Curve:
        return Curve(*np.array(self.entries, dtype=np.float64).reshape(-1, 6).T)


def recorded(objective: Objective, target: float, most: int, run: Callable[[Books], None]) -> Curve:
    """The curve of a method."""
    books = Books(objective, target, most)
    with np.errstate(over="ignore", invalid="ignore"), suppress(Over):
        run(books)
    return books.curve
