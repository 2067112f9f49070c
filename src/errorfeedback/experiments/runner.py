"""Jobs in worker processes: one job at a time each, every finished one stored at once.

Ctrl-C asks the workers to stop at their next recorded round; what is finished stays, and the next call continues there.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.managers import SyncManager
from pathlib import Path
from typing import Any, Self

from errorfeedback.experiments.jobs import Job
from errorfeedback.experiments.recipes import Recipe
from errorfeedback.experiments.store import Store

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

Told = Callable[[Job, int, bool], None]
"""(job, rounds done, finished): what a progress display is told."""


def cores() -> int:
    """The cores of this machine."""
    return os.cpu_count() or 1


def distinct(jobs: Iterable[Job]) -> list[Job]:
    """Every job once: experiments share curves."""
    return list({job.fingerprint: job for job in jobs}.values())


def without_data(jobs: Sequence[Job]) -> dict[Job, str]:
    """The jobs whose data is missing, with the message that says which file is expected where."""
    problems: dict[Recipe, str] = {}
    for recipe in dict.fromkeys(job.problem for job in jobs):
        try:
            recipe.check()
        except (OSError, ValueError) as error:
            problems[recipe] = str(error)
    return {job: problems[job.problem] for job in jobs if job.problem in problems}


def run_jobs(jobs: Sequence[Job], store: Store, *, workers: int, told: Told) -> dict[Job, str]:
    """Run the jobs that are not stored yet; returns those that failed, with the reason."""
    todo = {job.file: job for job in distinct(jobs) if not store.has(job)}
    failed: dict[Job, str] = {}
    if not todo:
        return failed
    context = multiprocessing.get_context("spawn")
    with _single_threaded(), _Manager(ctx=context) as manager:
        talk = Talk(manager.Queue(), manager.Event())
        with ProcessPoolExecutor(min(workers, len(todo)), context, _leave_interrupts) as pool:
            # the last ones first: they are the long ones, and short ones fill the end evenly
            pending = {pool.submit(_work, store.folder, job, talk): job for job in reversed(todo.values())}
            try:
                while pending:
                    _listen(talk.news, todo, told)
                    for future in [future for future in pending if future.done()]:
                        job = pending.pop(future)
                        told(job, job.work, True)
                        reason = _reason(future)
                        if reason is not None:
                            failed[job] = reason
            except KeyboardInterrupt:
                talk.stop.set()
                pool.shutdown(cancel_futures=True)
                raise
    return failed


@dataclass(frozen=True)
class Talk:
    """How a worker tells of its rounds and is told to stop."""

    news: Any
    stop: Any


class _Manager(SyncManager):
    """Holds queue and event in a process of its own, which Ctrl-C must not end before the workers."""

    def __enter__(self) -> Self:
        self.start(_leave_interrupts)
        return self


def _listen(news: Any, todo: dict[str, Job], told: Told) -> None:
    """Pass on what the workers report; waits a moment when there is nothing."""
    try:
        file, rounds = news.get(timeout=0.2)
        told(todo[file], rounds, False)
        while True:
            file, rounds = news.get_nowait()
            told(todo[file], rounds, False)
    except queue.Empty:
        pass


def _reason(future: Future[None]) -> str | None:
    error = future.exception()
    return None if error is None else f"{type(error).__name__}: {error}"


def _leave_interrupts() -> None:
    """Ctrl-C goes to every process of the terminal; only the first one reacts to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(folder: Path, job: Job, talk: Talk) -> None:
    last = time.monotonic()

    def watch(rounds: int) -> None:
        nonlocal last
        if time.monotonic() - last > 0.1:
            last = time.monotonic()
            talk.news.put((job.file, rounds))
            if talk.stop.is_set():
                raise InterruptedError("stopped by the user")

    begin = time.perf_counter()
    record = job.execute(watch)
    Store(folder).save(job, record, time.perf_counter() - begin)


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Processes started in here get one thread each for BLAS and OpenMP: the cores are taken by processes."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
