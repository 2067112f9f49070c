"""When a checkpoint is due, and what happens to a run that is told to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import Any, Protocol

import numpy as np

import errorfeedback
from errorfeedback.engines.base import SIGNALS, Engine, Interrupted
from errorfeedback.problems.base import Problem
from errorfeedback.storage.checkpoint import LOG, Checkpoint, Folder
from errorfeedback.storage.files import FORMAT
from errorfeedback.storage.packing import fingerprint

LONG = 200


class StateWriter(Protocol):
    """What the loop asks of whoever keeps its state."""

    snapshot: dict[str, Any] | None
    """The state that the run goes on from."""

    def due(self, t: int, last: bool) -> bool:
        """Whether to keep the state after round t."""

    def save(self, t: int, snapshot: dict[str, Any]) -> None:
        """Keep the state before round t."""

    def listening(self) -> AbstractContextManager[None]:
        """Around the run: what signals do to it."""


@dataclass(eq=False)
class CheckpointWriter:
    """Writes the checkpoints of one run."""

    checkpoint: Checkpoint
    identity: dict[str, str]
    snapshot: dict[str, Any] | None = None
    """The checkpoint that the run goes on from."""

    def __post_init__(self) -> None:
        self.folder = Folder(Path(self.checkpoint.folder))
        self.last = monotonic()
        self.signal = 0

    def due(self, t: int, last: bool) -> bool:
        """Whether to write one after round t."""
        if self.signal or last:
            return True
        if self.checkpoint.every is not None:
            return (t + 1) % self.checkpoint.every == 0
        return monotonic() - self.last >= (self.checkpoint.seconds or 0)

    def save(self, t: int, snapshot: dict[str, Any]) -> None:
        """The state before round t; what goes wrong with the disk is reported, and training goes on."""
        written = self._written(t, {"identity": self.identity, **snapshot})
        self.last = monotonic()
        if self.signal:
            where = f"wrote the state before round {t}" if written else "could not write a checkpoint"
            words = (signal.Signals(self.signal).name, where, self.folder.path)
            LOG.warning("stopped by %s: %s; go on with: errorfeedback resume %s", *words)
            raise Interrupted(128 + self.signal)

    def _written(self, t: int, snapshot: dict[str, Any]) -> bool:
        try:
            self.folder.save(t, snapshot)
        except OSError as error:
            LOG.warning("no checkpoint was written (%s); training goes on without", error)
            return False
        return True

    @contextmanager
    def listening(self) -> Iterator[None]:
        """SIGINT and SIGTERM end the run after the round it is in; a second one ends it at once."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._signalled) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(number)
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)


@contextmanager
def checkpointing(folder: Folder, engine: Engine, make: Callable[[], CheckpointWriter]) -> Iterator[CheckpointWriter | None]:
    """The writer of a run's checkpoints, on the process that leads, while no other run may write into its folder."""
    with ExitStack() as stack:
        writer = None
        if engine.leads:
            with engine.guard():
                stack.enter_context(folder.held())
                writer = make()
        yield writer


def identity(problem: Problem, options: dict[str, Any]) -> dict[str, str]:
    """Who a run is: what must be equal for a checkpoint to be its own."""
    texts = {name: repr(value) for name, value in options.items()}
    texts["x0"] = fingerprint(options["x0"])
    brief = {name: text if len(text) <= LONG else fingerprint(text) for name, text in texts.items()}
    return {"version": errorfeedback.__version__, "format": str(FORMAT), "data": data_of(problem), **brief}


def data_of(problem: Problem) -> str:
    """A hash of the data; where they cannot be hashed (functions of the user), of what they answer at two points."""
    try:
        return fingerprint(problem)
    except TypeError:
        near = problem.x0 + np.random.default_rng(0).standard_normal(problem.width)
        answers = [(problem.values_at(x), problem.gradients_at(x)) for x in (problem.x0, near)]
        return f"{type(problem).__qualname__} {fingerprint([problem.support, answers])}"
