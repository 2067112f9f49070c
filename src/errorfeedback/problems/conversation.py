"""What places with rows of their own have to know of each other before round 0, as one of them sees it:

    everyone = yield mine

says `mine` to all and hears what all have said, in client order: first place 0, then place 1, and so on. A conversation is
such a generator; who carries the words is not its business. Between processes they are requests and answers
(`clients.speaking`, `engines.conducting`); where there is one place it hears itself (`alone`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar, cast

T = TypeVar("T")
Conversation: TypeAlias = Generator[Any, list[Any], T]


@dataclass(frozen=True)
class Seat:
    """Which of how many places this one is."""

    number: int = 0
    of: int = 1


Begin: TypeAlias = Callable[[Seat], Conversation[T]]


@dataclass(frozen=True, eq=False)
class Each:
    """What is said when every place is to hear a word of its own, and nobody else's."""

    words: Sequence[Any]


class Side(Generic[T]):
    """One place's part in a conversation: what it says, until it has its result."""

    def __init__(self, conversation: Conversation[T]) -> None:
        self._conversation = conversation
        self.says: Any = None
        self.result: T | None = None
        self.ended = False

    def hear(self, everyone: list[Any] | None) -> None:
        """What all have said; None: it is to begin."""
        try:
            self.says = self._conversation.send(cast(list[Any], everyone))
        except StopIteration as end:
            self.says, self.result, self.ended = None, end.value, True


def heard_by(number: int, said: Sequence[Any]) -> list[Any]:
    """What a place hears when this is said.

    >>> heard_by(1, ["to all", Each(["to 0", "to 1"])])
    ['to all', 'to 1']
    """
    return [word.words[number] if isinstance(word, Each) else word for word in said]


def check_alike(said: Sequence[Any], what: str) -> None:
    """Refuse places that differ in what all must have alike.

    >>> check_alike([14, 14, 15], "columns")
    Traceback (most recent call last):
        ...
    ValueError: place 2 and place 0 differ in their columns: 15 and 14; they must have the same
    """
    for place, word in enumerate(said):
        if type(word) is not type(said[0]) or word != said[0]:
            raise ValueError(
                f"place {place} and place 0 differ in their {what}: {word} and {said[0]}; they must have the same"
            )


def alone(begin: Begin[T]) -> T:
    """The result of a conversation with nobody else.

    >>> def names(seat):
    ...     everyone = yield f"place {seat.number} of {seat.of}"
    ...     return everyone
    >>> alone(names)
    ['place 0 of 1']
    """
    side = Side(begin(Seat()))
    side.hear(None)
    while not side.ended:
        side.hear(heard_by(0, [side.says]))
    return cast(T, side.result)
