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

from errorfeedback.engines.base import SIGNALS, Interrupted
from errorfeedback.engines.heartbeat import Heart
from errorfeedback.storage.checkpoint import LOG

Handler = Callable[[int, FrameType | None], Any]


@contextmanager
def handling(handler: Handler) -> Iterator[dict[int, Any]]:
    """Both signals go to this handler; what they went to before. Only the main thread can say so."""
    if threading.current_thread() is not threading.main_thread():
        yield {}
        return
    before: dict[int, Any] = {number: signal.signal(number, handler) for number in _heard()}
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
    """Rank 0's side, while a run lasts: a signal does what it did before, or ends the run after the round it is in."""

    def __init__(self, heart: Heart | None) -> None:
        self.heart = heart
        self.before: dict[int, Any] = {}
        self.ends = 0
        """The signal that ends the run."""
        self.heeded = self.relayed = False
        """Whether one was heeded, and whether that was one to another rank."""

    @contextmanager
    def listening(self) -> Iterator[None]:
        with handling(self._direct) as self.before:
            yield
            self.check()

    def check(self) -> None:
        """Between two rounds."""
        if not self.heeded and self.heart is not None and (signalled := self.heart.signalled) is not None:
            who, number = signalled
            LOG.warning("%s was told to stop by %s", who, signal.Signals(number).name)
            self.heeded = self.relayed = True
            self._heed(number, None)
            for each in self.before:
                signal.signal(each, self._direct)
        if self.ends:
            LOG.warning("stopped by %s; there is no checkpoint to go on from", signal.Signals(self.ends).name)
            raise Interrupted(128 + self.ends)

    def _direct(self, number: int, frame: FrameType | None) -> None:
        _at_once()
        if self.relayed:  # the same signal, which came to all ranks
            self.relayed = False
            return
        self.heeded = True
        self._heed(number, frame)

    def _heed(self, number: int, frame: FrameType | None) -> None:
        former = self.before.get(number, signal.SIG_DFL)
        if former in (signal.SIG_DFL, signal.default_int_handler):
            self.ends = number
        elif callable(former):
            former(number, frame)


def _at_once() -> None:
    """The next signal ends this process."""
    for each in _heard():
        signal.signal(each, signal.SIG_DFL)


def _heard() -> list[signal.Signals]:
    """The signals that this process was not told to ignore, as one in the background of a shell is."""
    return [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
