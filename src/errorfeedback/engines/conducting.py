"""The server's side of a conversation between places (`clients.speaking`): it asks every one of them, and passes on what
they say."""

from __future__ import annotations

from itertools import count
from typing import Any, TypeVar, cast

from errorfeedback.engines.base import Transport
from errorfeedback.engines.remote import checked, new_run
from errorfeedback.problems.base import Problem
from errorfeedback.problems.conversation import Begin, Each, Seat, Side, heard_by
from errorfeedback.storage.files import content, value_of
from errorfeedback.storage.packing import fingerprint
from errorfeedback.wire.requests import Request

T = TypeVar("T")


def gathered(transport: Transport, hosts: int) -> tuple[Problem, Any]:
    """The problem of that many `hosts` with rows of their own (`PreparedPlace`) behind a `transport`, as a server knows it
    that has none; and what else they let it know: `OwnRows` S of x = S z where they scaled it, on the active features."""
    said = _Conductor(transport, hosts, None).conduct()
    problem, known, _ = said[0]
    for k, (other, _, clients) in enumerate(said):
        transport.admit(k, clients)
        if fingerprint(other) != fingerprint(problem):
            raise ValueError(
                f"{transport.name(k)} has come to another problem than {transport.name(0)}: one of them is wrong"
            )
    return problem.lying([clients for _, _, clients in said]), known


def conducted(transport: Transport, hosts: int, begin: Begin[T]) -> T:
    """What a conversation comes to here, between this process, which is place 0, and that many hosts."""
    mine = Side(begin(Seat(0, 1 + hosts)))
    _Conductor(transport, hosts, mine).conduct()
    return cast(T, mine.result)


class _Conductor:
    """Carries one conversation. Whatever ends it, the hosts hear of it before anything else."""

    def __init__(self, transport: Transport, hosts: int, mine: Side[Any] | None) -> None:
        self.transport, self.mine, self.run, self.numbers = transport, mine, new_run(), count()
        first = 0 if mine is None else 1
        self.seats = [Seat(first + k, first + hosts) for k in range(hosts)]

    def conduct(self) -> list[Any]:
        """What every place says at the end."""
        reason = ""
        try:
            return self._to_the_end()
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
            ended, said = self._said(checked(self.transport, answers))
            if all(ended):
                return said
            if any(ended):
                raise ValueError("some ranks have all they need, and others ask on: they were not given the same to do")

    def _words(self, said: list[Any] | None) -> list[bytes]:
        if said is None:
            return [content(seat) for seat in self.seats]
        if any(isinstance(word, Each) for word in said):
            return [content(heard_by(seat.number, said)) for seat in self.seats]
        return [content(said)] * len(self.seats)

    def _said(self, answers: list[bytes]) -> tuple[list[bool], list[Any]]:
        theirs = [value_of(answer, self.transport.name(k)) for k, answer in enumerate(answers)]
        mine = [] if self.mine is None else [(self.mine.ended, self.mine.says)]
        return [ended for ended, _ in [*mine, *theirs]], [said for _, said in [*mine, *theirs]]

    def _send(self, verb: str, bodies: list[bytes]) -> None:
        number = next(self.numbers)
        self.transport.send([Request(verb, number, body, self.run).pack() for body in bodies])
