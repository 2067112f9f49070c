"""Several processes that make one problem, each from the rows of its own clients, and what they tell each other for it.

Clients are numbered through: first those of process 0, then those of process 1, and so on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

from errorfeedback.core import Floats

T = TypeVar("T")


class ProcessGroup(Protocol):
    """The processes, as each of them sees the group."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def all(self, value: T) -> list[T]:
        """What every process says, in their order."""

    def guard(self) -> AbstractContextManager[None]:
        """An error in here on one process ends all of them: the others would wait for it."""

    def in_turn(self, total: Floats, add: Callable[[Floats], Any]) -> Floats:
        """The total to which one process after the other has added, in place: the order of a sum over clients."""

    def hand_out(self, parts: Callable[[], Sequence[T]]) -> T:
        """Process 0 makes a part for each process, and gives it to them."""


class SingleProcess:
    """One process.

    >>> SingleProcess().all("hello")
    ['hello']
    """

    rank, size = 0, 1

    def all(self, value: T) -> list[T]:
        return [value]

    def guard(self) -> AbstractContextManager[None]:
        return nullcontext()

    def in_turn(self, total: Floats, add: Callable[[Floats], Any]) -> Floats:
        add(total)
        return total

    def hand_out(self, parts: Callable[[], Sequence[T]]) -> T:
        (part,) = parts()
        return part


SINGLE = SingleProcess()
