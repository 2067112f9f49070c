"""The server's side of a conversation between places (`clients.speaking`): it asks every one of them, and passes on what
they say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from itertools import count
from typing import Any, TypeVar, cast

import numpy as np

from errorfeedback.clients.own_rows import Introduction
from errorfeedback.engines.allow_list import NotAdmittedError
from errorfeedback.engines.base import Transport
from errorfeedback.engines.remote import checked
from errorfeedback.problems.base import Problem
from errorfeedback.problems.conversation import Begin, Each, Seat, Side, heard_by
from errorfeedback.problems.spread import Spread
from errorfeedback.storage.files import content, value_of
from errorfeedback.storage.packing import fingerprint
from errorfeedback.wire.requests import DONE, Request, new_run

T = TypeVar("T")
R = TypeVar("R")
PLACE = re.compile(r"\bplace (\d+)\b")
"""What places call each other; people know them by names."""


def gathered(transport: Transport, hosts: int) -> tuple[Problem, Any]:
    """The problem of that many `hosts` with rows of their own (`PreparedPlace`) behind a `transport`, as a server knows it
    that has none; and what else they let it know: `OwnRows` S of x = S z where they scaled it, on the active features."""
    problem, known, _ = introduced(transport, hosts)
    return problem, known


def introduced(transport: Transport, hosts: int) -> tuple[Spread, Any, list[Introduction]]:
    """The same, and what every host says of its own clients. Who may not speak for them is refused."""
    return _Conductor(transport, hosts, None).conduct(lambda said: _joined(transport, said))


def _joined(transport: Transport, said: list[Any]) -> tuple[Spread, Any, list[Introduction]]:
    problem, known, _ = _report_of(transport, 0, said[0])
    places = []
    for k, word in enumerate(said):
        other, _, place = _report_of(transport, k, word)
        places.append(place)
        if fingerprint(other) != fingerprint(problem):
            raise ValueError(
                f"{transport.name(k)} has come to another problem than {transport.name(0)}: one of them is wrong"
            )
    transport.admit([place.names for place in places])
    counts = [len(place.names) for place in places]
    if sum(counts) != problem.n:
        named = ", ".join(f"{transport.name(k)} {count}" for k, count in enumerate(counts))
        raise ValueError(f"of clients, {named} are named, and the problem has {problem.n}: one of them is wrong")
    return problem.lying(counts), known, places


def _report_of(transport: Transport, host: int, word: Any) -> tuple[Spread, Any, Introduction]:
    """What a place says at the end: the problem, what else all know, and who its clients are."""
    if isinstance(word, tuple) and len(word) == 3:
        problem, known, place = word
        if isinstance(problem, Spread) and isinstance(place, Introduction) and _are_names(place.names):
            return problem, known, place
    raise ValueError(f"{transport.name(host)} does not say what the problem is, and what its clients are called")


def _are_names(names: Any) -> bool:
    return isinstance(names, list) and all(isinstance(name, str | int | float) for name in names)


def conducted(transport: Transport, hosts: int, begin: Begin[T]) -> T:
    """What a conversation comes to here, between this process, which is place 0, and that many hosts."""
    mine = Side(begin(Seat(0, 1 + hosts)))
    _Conductor(transport, hosts, mine).conduct(lambda said: said)
    return cast(T, mine.result)


class _Conductor:
    """Carries one conversation. Whatever ends it, the hosts hear of it before anything else."""

    def __init__(self, transport: Transport, hosts: int, mine: Side[Any] | None) -> None:
        self.transport, self.mine, self.run, self.numbers = transport, mine, new_run(), count()
        first = 0 if mine is None else 1
        self.seats = [Seat(first + k, first + hosts) for k in range(hosts)]

    def conduct(self, settle: Callable[[list[Any]], R]) -> R:
        """What comes of what every place says at the end."""
        reason = ""
        try:
            return settle(self._to_the_end())
        except NotAdmittedError:
            reason = "the server does not admit all clients that were brought"  # and does not tell their names
            raise
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}"
            raise
        finally:
            self._send("prepared", [content(reason)] * len(self.seats))
            checked(self.transport, self.transport.receive())

    def _to_the_end(self) -> list[Any]:
        said: list[Any] | None = None
        while True:
            self._send("prepare", self._words(said))
            try:
                if self.mine is not None:
                    self.mine.hear(None if said is None else heard_by(0, said))
            finally:  # whoever was asked is heard, also where this process cannot go on
                answers = self.transport.receive()
            ended, said = self._said(self._checked(answers, said or []))
            if all(ended):
                return said
            if any(ended):
                done, asking = (self._names(np.flatnonzero(np.array(ended) == end)) for end in (True, False))
                raise ValueError(f"{done} have all they need, and {asking} ask on: they were not given the same to do")

    def _checked(self, answers: list[bytes], said: list[Any]) -> list[bytes]:
        """The answers; where one is none, it may be because of what another place has `said`."""
        for k, answer in enumerate(answers):
            if answer[:1] != DONE:
                why = PLACE.sub(lambda match: self._name(int(match[1])), answer[1:].decode(errors="replace"))
                odd = [seat for seat in odd_ones(said) if seat != self.seats[k].number]
                self.transport.fail(k, f"{self._names(odd)} said what it does not understand: {why}" if odd else why)
        return [answer[1:] for answer in answers]

    def _name(self, seat: int) -> str:
        """A place may speak of any number."""
        numbers = [each.number for each in self.seats]
        return self.transport.name(numbers.index(seat)) if seat in numbers else f"place {seat}"

    def _names(self, seats: Iterable[int]) -> str:
        return ", ".join(map(self._name, seats))

    def _words(self, said: list[Any] | None) -> list[bytes]:
        if said is None:
            return [content(seat) for seat in self.seats]
        if any(isinstance(word, Each) for word in said):
            return [content(heard_by(seat.number, said)) for seat in self.seats]
        return [content(said)] * len(self.seats)

    def _said(self, answers: list[bytes]) -> tuple[list[bool], list[Any]]:
        theirs = [value_of(answer, self.transport.name(k)) for k, answer in enumerate(answers)]
        for k, word in enumerate(theirs):
            if not isinstance(word, tuple) or len(word) != 2 or type(word[0]) is not bool:
                self.transport.fail(k, "it does not say whether it has all it needs")
        mine = [] if self.mine is None else [(self.mine.ended, self.mine.says)]
        return [ended for ended, _ in [*mine, *theirs]], [said for _, said in [*mine, *theirs]]

    def _send(self, verb: str, bodies: list[bytes]) -> None:
        number = next(self.numbers)
        self.transport.send([Request(verb, number, body, self.run).pack() for body in bodies])


def odd_ones(said: Sequence[Any]) -> list[int]:
    """Whose words are of another kind than most: words of one turn are of one kind.

    >>> odd_ones([(3, "a"), (4, "b"), (3, None)])
    [2]
    """
    kinds = [_kind(word) for word in said]
    return [] if not kinds else [k for k, kind in enumerate(kinds) if kinds.count(kind) < max(map(kinds.count, kinds))]


def _kind(word: Any) -> Any:
    if isinstance(word, np.ndarray):
        return word.dtype.kind, word.ndim
    if is_dataclass(word):
        return type(word), *(_kind(getattr(word, field.name)) for field in fields(word))
    return (tuple, *map(_kind, word)) if isinstance(word, tuple) else type(word)
