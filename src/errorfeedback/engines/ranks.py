"""The ranks of an MPI job as a group of processes (`problems.process_group`). What they say is packed, never pickled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from errorfeedback.core import Floats
from errorfeedback.engines.channel import broadcast, end_job, receive
from errorfeedback.storage.files import content, value_of

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Ranks:
    """All ranks of `world`; every one of them must make the same calls."""

    world: Any

    @property
    def rank(self) -> int:
        return int(self.world.rank)

    @property
    def size(self) -> int:
        return int(self.world.size)

    def all(self, value: T) -> list[T]:
        """One broadcast from each rank."""
        return [self.from_rank(rank, value) for rank in range(self.size)]

    @contextmanager
    def guard(self) -> Iterator[None]:
        """An error on one rank ends the job."""
        try:
            yield
        except Exception as error:
            if self.size > 1:
                end_job(self.world, f"rank {self.rank} failed: {type(error).__name__}: {error}")
            raise

    def from_rank(self, rank: int, value: T) -> T:
        """What that rank says."""
        packed = np.frombuffer(content(value) if rank == self.rank else b"", dtype=np.uint8)
        length = np.array([len(packed)])
        broadcast(self.world, length.view(np.uint8), rank)
        room = packed.copy() if rank == self.rank else np.empty(int(length[0]), dtype=np.uint8)
        broadcast(self.world, room, rank)
        return value if rank == self.rank else value_of(room.tobytes(), f"rank {rank}")

    def send(self, value: Any, rank: int) -> None:
        self.world.Send(np.frombuffer(content(value), dtype=np.uint8), rank)

    def receive(self, rank: int) -> Any:
        return value_of(receive(self.world, rank), f"rank {rank}")

    def hand_out(self, parts: Callable[[], Sequence[T]]) -> T:
        """Nobody but rank 0 ever sees another rank's part."""
        if self.rank:
            return self.receive(0)
        mine, *others = parts()
        for rank, part in enumerate(others, 1):
            self.send(part, rank)
        return mine

    def in_turn(self, total: Floats, add: Callable[[Floats], Any]) -> Floats:
        """From rank to rank, and from the last one to all."""
        if self.rank:
            total[:] = self.receive(self.rank - 1)
        add(total)
        if self.rank + 1 < self.size:
            self.send(total, self.rank + 1)
        return self.from_rank(self.size - 1, total)
