"""How commands and x come from rank 0 to the others: whole, or to each rank only what its clients own.

A command is nine whole numbers (which, round, seed, the length of what follows or an option, the five fields of `Ask`) and
x. All ranks get the same broadcast, unless the features of the ranks' clients are together fewer than what the broadcast
brings; then each is sent its own part.
"""

from __future__ import annotations

import struct
import sys
import time
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import Integers, Model

Bytes = NDArray[np.uint8]
HEAD = struct.Struct("<9q")
LAST_WORDS = 0.3
"""Seconds that mpiexec gets to pass on what a rank said before it ends the job."""
PATIENCE = 10.0
"""Seconds that it may take to read it."""


def is_smaller(features: Sequence[Integers], d: int) -> bool:
    """Whether the parts of all ranks but the first are fewer numbers than all of x to each of them."""
    return sum(map(len, features)) < d * len(features)


class Letter:
    """A command with room for x, or for a part of it."""

    def __init__(self, size: int, dtype: np.dtype[Any]) -> None:
        self.bytes = np.zeros(HEAD.size + size * dtype.itemsize, dtype=np.uint8)
        self.x = self.bytes[HEAD.size :].view(dtype)
        self.head = self.bytes.data

    def write(self, *head: int) -> None:
        HEAD.pack_into(self.head, 0, *head)

    def read(self) -> tuple[int, ...]:
        return HEAD.unpack_from(self.head)


class Outbox:
    """Rank 0's side. `features`: what the clients of rank 1, 2, ... own."""

    def __init__(self, world: Any, features: Sequence[Integers], d: int, dtype: np.dtype[Any]) -> None:
        self.world = world
        self.features = features if is_smaller(features, d) else None
        sizes = [d] if self.features is None else [len(each) for each in features]
        self.letters = [Letter(size, dtype) for size in sizes]
        self.sent: list[Any] = []

    def send(self, x: Model | None, *head: int) -> None:
        for request in self.sent:  # was answered long ago
            self.world.until(request.Test)
        if self.features is None:
            (letter,) = self.letters
            letter.write(*head)
            if x is not None:
                letter.x[:] = x
            broadcast(self.world, letter.bytes)
            return
        for letter, features in zip(self.letters, self.features, strict=True):
            letter.write(*head)
            if x is not None:
                np.take(x, features, out=letter.x)
        self.sent = [self.world.Isend(letter.bytes, rank) for rank, letter in enumerate(self.letters, 1)]


class Inbox:
    """The side of the others; `x` is right where the rank's clients look."""

    def __init__(self, world: Any, features: Integers, parts: bool, d: int, dtype: np.dtype[Any]) -> None:
        self.world, self.features = world, features if parts else None
        self.letter = Letter(len(features) if parts else d, dtype)
        self.x = np.zeros(d, dtype=dtype) if parts else self.letter.x

    def receive(self) -> tuple[int, ...]:
        """The next command's numbers; x is in place."""
        if self.features is None:
            broadcast(self.world, self.letter.bytes)
        else:
            self.world.until(self.world.Irecv(self.letter.bytes, 0).Test)
            self.x[self.features] = self.letter.x
        return self.letter.read()


def broadcast(world: Any, buffer: Bytes, rank: int = 0) -> None:
    """What a rank has, to all."""
    world.until(world.Ibcast(buffer, rank).Test)


def receive(world: Any, rank: int) -> tuple[Bytes, int]:
    """What a rank sent, whatever its length, and its tag."""
    from mpi4py.MPI import Status  # noqa: PLC0415  (optional)

    status = Status()
    world.until(lambda: world.Iprobe(rank, status=status))
    answer = np.empty(status.Get_count(), dtype=np.uint8)
    world.Recv(answer, rank)
    return answer, status.Get_tag()


def end_job(world: Any, reason: str) -> None:
    """Say why, and end all ranks once mpiexec has read it."""
    print(f"errorfeedback: {reason}; the job ends", file=sys.stderr, flush=True)
    end = time.monotonic() + PATIENCE
    while _unread() and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(LAST_WORDS)
    world.Abort(1)


def _unread() -> int:
    """Bytes of what was said that nobody has taken out of the pipe yet; 0 where it is no pipe."""
    count = array("i", [0])
    try:
        from fcntl import ioctl  # noqa: PLC0415  (not on every system)
        from termios import FIONREAD  # noqa: PLC0415

        ioctl(sys.stderr.fileno(), FIONREAD, count, True)
    except (ImportError, OSError):
        return 0
    return count[0]
