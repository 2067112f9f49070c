"""A place's side of a conversation as bytes: what it hears is a request, what it says an answer.

    prepare    where it sits, to begin, or what all said the last time -> whether it has its result, and what it says to all
    prepared   why the conversation ends without a result, or "" -> nothing
All of it is packed (`storage.files`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, cast

from errorfeedback.clients.serving import Answering
from errorfeedback.problems.conversation import Begin, Seat, Side, heard_by
from errorfeedback.storage.files import content, value_of
from errorfeedback.storage.packing import fingerprint

T = TypeVar("T")


class Speaker(Answering, Generic[T]):
    """One side, from the first request to the last. `report`: what the server is to know of the result."""

    def __init__(self, begin: Begin[T], report: Callable[[T], Any] = lambda result: None) -> None:
        super().__init__({"prepare": self._prepare, "prepared": self._prepared})
        self.begin, self.report = begin, report
        self.side: Side[T] | None = None
        self.seat = Seat()
        self.error: Exception | None = None
        self.ended, self.reason = False, ""

    def _prepare(self, body: bytes) -> bytes:
        heard = value_of(body, "the request")
        if isinstance(heard, Seat):
            self.side, self.seat, heard = Side(self.begin(heard)), heard, None
            self.error, self.reason, self.ended = None, "", False
        if self.side is None:
            raise ValueError("nothing is being prepared here")
        if heard is not None:
            self._check_own_word(self.side, heard)
        try:
            self.side.hear(heard)
        except Exception as error:
            self.error = error
            raise
        return content((True, self.report(cast(T, self.side.result))) if self.side.ended else (False, self.side.says))

    def _check_own_word(self, side: Side[T], heard: list[Any]) -> None:
        """A place that is asked again after its end must still have the rows that it spoke of."""
        (mine,) = heard_by(self.seat.number, [side.says])
        if fingerprint(heard[self.seat.number]) != fingerprint(mine):
            raise ValueError(
                "what was said here is not what would be said now: these are not the rows that the run began with"
            )

    def _prepared(self, body: bytes) -> bytes:
        self.reason, self.ended = value_of(body, "the request"), True
        return b""

    @property
    def result(self) -> T:
        """What the conversation came to here."""
        if self.error is not None:
            raise self.error
        if self.reason or self.side is None:
            raise SystemExit(f"rank 0 ended the run: {self.reason}")
        return cast(T, self.side.result)
