"""SIGINT and SIGTERM to any rank: rank 0 decides what they mean, as if they had come to it.

A signal to the job comes to every rank, so that rank 0 may get it both directly and by way of the others (`heartbeat`): it
counts once. A second one ends a rank at once.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from errorfeedback.engines.heartbeat import Heart
from errorfeedback.records.checkpoint import LOG
from errorfeedback.runtime.keeper import SIGNALS, Interrupted

Handler = Callable[[int, FrameType | None], Any]


@contextmanager
def handling(handler: Handler) -> Iterator[dict[int, Any]]:
    """Both signals go to this handler; what they went to before. Only the main thread can say so."""
    if threading.current_thread() is not threading.main_thread():
        yield {}
        return
    before: dict[int, Any] = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield before
    finally:
        for number, former in before.items():
            signal.signal(number, former)


@contextmanager
def passed_on(heart: Heart | None) -> Iterator[None]:
    """Rank 0 hears of the signals to this rank."""

    def tell(number: int, frame: FrameType | None) -> None:
        if heart is not None:
            heart.says = number
        _at_once()

    with handling(tell):
        yield


class Signals:
    """Rank 0's side, while a run lasts."""

    def __init__(self, heart: Heart | None) -> None:
        self.heart = heart
        self.before: dict[int, Any] = {}
        self.had = self.told = False
        """Whether a signal came here, and whether one came to another rank."""

    @contextmanager
    def listening(self) -> Iterator[None]:
        with handling(self._direct) as self.before:
            yield

    def check(self) -> None:
        """Do what a signal to another rank asks for."""
        if self.heart is None or self.told or self.had or (signalled := self.heart.signalled) is None:
            return
        who, number = signalled
        self.told = True
        LOG.warning("%s was told to stop by %s", who, signal.Signals(number).name)
        handler = self.before.get(number)
        if not callable(handler):
            raise Interrupted(128 + number)
        handler(number, None)
        for each in SIGNALS:
            signal.signal(each, self._direct)

    def _direct(self, number: int, frame: FrameType | None) -> None:
        again, self.had = self.told and not self.had, True
        if again:  # it has been heeded
            _at_once()
            return
        for each, former in self.before.items():
            signal.signal(each, former)
        signal.raise_signal(number)


def _at_once() -> None:
    """The next signal ends this process."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_DFL)
