"""Who is still there: every rank says so once a second, and a silence that lasts ends the job with the silent rank's name.

Rank 0 hears all others, and all others hear rank 0, on a communicator of their own. It is a thread that speaks, so that a
long round, a compilation or a slow disk is no silence; a process that is stopped, or a machine that is gone, is one. A rank
is blamed only while this one waits for others, and time is counted in this process's own beats: where the whole job was
suspended, all of it goes on. What is said is one byte: that a rank is here, that it has left, or the signal that it got.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Event, Thread
from typing import Any

import numpy as np

from errorfeedback.engines.channel import end_job
from errorfeedback.storage.checkpoint import LOG

BEAT = 1.0
"""Seconds."""
LEAST = 5.0
"""Seconds of silence that can be told from a busy machine."""
PARTING = 5
"""Beats in which all that a rank said before it left has arrived."""
HASTE = 0.02
"""Seconds between two looks of a rank that is about to end."""
HERE, LEFT = 0, 255


class Heart:
    """This rank's voice, and its ear for the others."""

    def __init__(self, world: Any) -> None:
        self.world = world.Dup()
        others = range(1, world.size) if world.rank == 0 else range(1)
        self.silence = dict.fromkeys(others, 0)
        """Of my beats, since each was heard last."""
        self.heard = dict.fromkeys(others, HERE)
        self.names = {rank: f"rank {rank}" for rank in others}
        self.says = HERE
        self.limit: float | None = None
        """Seconds of silence that end the job, while this rank waits."""
        self.before_end: Callable[[], None] = lambda: None
        self._sent: dict[int, Any] = {}
        self._leaves = Event()
        self._thread = Thread(target=self._live, daemon=True, name="heartbeat")
        self._thread.start()
        atexit.register(self.leave)

    def called(self, names: list[str]) -> None:
        """What people call the ranks."""
        self.names = {rank: names[rank] for rank in self.silence}

    @contextmanager
    def waiting(self, limit: float) -> Iterator[None]:
        """This rank waits for others, but for nobody who has been silent for `limit` seconds."""
        self.limit = limit
        try:
            yield
        finally:
            self.limit = None

    @property
    def signalled(self) -> tuple[str, int] | None:
        """A rank that was told to stop, and the signal."""
        return next(((self.names[rank], word) for rank, word in self.heard.items() if word not in (HERE, LEFT)), None)

    def leave(self) -> None:
        """The program ends, which MPI does on all ranks at once; whoever waits for it then hears that it has left."""
        self.says = LEFT
        self._leaves.set()
        self._thread.join()

    def _live(self) -> None:
        from mpi4py.MPI import Is_finalized  # noqa: PLC0415  (optional)

        last = None  # once all have left, and all was heard
        while not Is_finalized() and not (last is not None and last.Test()):
            leaving = self._leaves.is_set()
            self._listen()
            self._judge()
            if last is None and self._speak() and leaving:
                last = self.world.Ibarrier()
            time.sleep(HASTE) if leaving else self._leaves.wait(BEAT)

    def _speak(self) -> bool:
        """Say it to everyone who has heard what was said last; whether all have heard that this rank leaves."""
        for rank in self.silence:
            if rank not in self._sent or (self._sent[rank][0] != LEFT and self._sent[rank][1].Test()):
                word = np.array([self.says], dtype=np.uint8)
                self._sent[rank] = int(word[0]), self.world.Issend(word, rank)
        return all(said == LEFT and request.Test() for said, request in self._sent.values())

    def _listen(self) -> None:
        from mpi4py.MPI import Status  # noqa: PLC0415  (optional)

        status, word = Status(), np.empty(1, dtype=np.uint8)
        for rank in self.silence:
            self.silence[rank] += 1
        while self.world.Iprobe(status=status):
            rank = status.Get_source()
            self.world.Recv(word, rank)
            self.silence[rank], self.heard[rank] = 0, int(word[0])

    def _judge(self) -> None:
        limit = self.limit
        for rank, beats in self.silence.items():
            left = self.heard[rank] == LEFT
            if limit is not None and beats >= (PARTING if left else limit / BEAT):
                how = (
                    "left the program while another rank waits for it"
                    if left
                    else f"has not been heard of for {limit:g} seconds: it is stopped, or its machine is gone; "
                    "the last checkpoint, where there is one, goes on from there"
                )
                self.before_end()
                end_job(self.world, f"{self.names[rank]} {how}")


@cache
def heart() -> Heart | None:
    """The only one of this process; none where it is alone, or where MPI does not bear a second thread."""
    from mpi4py.MPI import COMM_WORLD, THREAD_MULTIPLE, Query_thread  # noqa: PLC0415  (optional)

    if COMM_WORLD.size == 1:
        return None
    if Query_thread() < THREAD_MULTIPLE:
        LOG.warning("this MPI lets only one thread speak: a rank that falls silent will not be noticed")
        return None
    return Heart(COMM_WORLD)
