"""Jobs in worker processes: one job at a time each, every finished one stored at once.

Ctrl-C asks the workers to stop at their next recorded round; what is finished stays, and the next call continues there.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event
from pathlib import Path

from errorfeedback.experiments.jobs import Job, Watch
from errorfeedback.experiments.recipes import ProblemRecipe
from errorfeedback.experiments.store import Store

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")

Display = Callable[[Job, int, bool], None]
"""(job, rounds done, finished): what a progress display is told."""
Then = Callable[[Job], Sequence[Job]]
"""A finished job -> what it makes necessary."""


def cores() -> int:
    """The cores of this machine."""
    return os.cpu_count() or 1


def distinct(jobs: Iterable[Job]) -> list[Job]:
    """Every job once: experiments share curves."""
    return list({job.fingerprint: job for job in jobs}.values())


def without_data(jobs: Sequence[Job]) -> dict[Job, str]:
    """The jobs whose data is missing, with the message that says which file is expected where."""
    problems: dict[ProblemRecipe, str] = {}
    for recipe in dict.fromkeys(job.problem for job in jobs):
        try:
            recipe.check()
        except (OSError, ValueError) as error:
            problems[recipe] = str(error)
    return {job: problems[job.problem] for job in jobs if job.problem in problems}


def nothing_more(job: Job) -> Sequence[Job]:
    """Where all jobs are known before the first one runs."""
    return ()


def run_jobs(
    jobs: Sequence[Job], store: Store, *, workers: int, display: Display, then: Then = nothing_more
) -> dict[Job, str]:
    """Run the jobs that are not stored yet and those that they make necessary; returns those that failed, and why."""
    crew = _Crew(store, jobs)
    try:
        return crew.run(workers, display, then)
    except KeyboardInterrupt:
        crew.stop.set()
        raise
    finally:
        crew.close()


def run_here(jobs: Sequence[Job], store: Store, *, display: Display, then: Then = nothing_more) -> dict[Job, str]:
    """The same in this process, one after the other: for problems that no other process can be sent."""
    queue, failed = _Queue(store, jobs), dict[Job, str]()
    while queue.waiting:
        job = queue.waiting.pop()
        news = _done(store.folder, job, partial(_show_rounds, display, job))
        if news.failure is not None:
            failed[job] = news.failure
        queue.add(then(job))
        display(job, news.rounds, True)
    return failed


def _show_rounds(display: Display, job: Job, rounds: int) -> None:
    display(job, rounds, False)


class _Queue:
    """The jobs that wait, each once."""

    def __init__(self, store: Store, jobs: Iterable[Job]) -> None:
        self.store, self.known = store, set[str]()
        self.waiting: list[
            Job
        ] = []  # taken from the end: the last ones are the long ones, and short ones fill the end evenly
        self.add(jobs)

    def add(self, jobs: Iterable[Job]) -> None:
        new = [job for job in distinct(jobs) if job.fingerprint not in self.known and not self.store.has(job)]
        self.known |= {job.fingerprint for job in new}
        self.waiting += new


@dataclass(frozen=True)
class News:
    """What a worker tells of its job: the round it is at, or that it is through with it."""

    rounds: int
    finished: bool = False
    failure: str | None = None


@dataclass
class _Worker:
    """A process, the line to it, and the job it has."""

    process: BaseProcess
    line: Connection
    job: Job

    def news(self) -> News:
        """What it says; a line that is cut is the news that the process is gone."""
        try:
            said: News = self.line.recv()
        except EOFError:
            self.process.join()
            return News(self.job.work, True, f"its process ended with exit code {self.process.exitcode}")
        return said


class _Crew:
    """Worker processes and the jobs that wait for them."""

    def __init__(self, store: Store, jobs: Sequence[Job]) -> None:
        self.folder, self.queue = store.folder, _Queue(store, jobs)
        self.context = multiprocessing.get_context("spawn")
        self.stop = self.context.Event()
        self.busy: dict[Connection, _Worker] = {}

    def run(self, workers: int, display: Display, then: Then) -> dict[Job, str]:
        """Until every job is finished or failed."""
        failed: dict[Job, str] = {}
        while self.queue.waiting or self.busy:
            while self.queue.waiting and len(self.busy) < workers:
                self._start()
            for line in wait(list(self.busy)):
                worker = self.busy[line]  # type: ignore[index]
                job, news = worker.job, worker.news()
                if news.failure is not None:
                    failed[job] = news.failure
                if news.finished:
                    self.queue.add(then(job))
                    self._next(worker)
                display(job, news.rounds, news.finished)
        return failed

    def _start(self) -> None:
        ours, theirs = self.context.Pipe()
        with _single_threaded():
            process = self.context.Process(target=_work, args=(self.folder, theirs, self.stop), daemon=True)
            process.start()
        theirs.close()
        worker = _Worker(process, ours, self.queue.waiting.pop())
        self.busy[ours] = worker
        ours.send(worker.job)

    def _next(self, worker: _Worker) -> None:
        """Another job for a worker, or its end."""
        if self.queue.waiting and worker.process.is_alive():
            worker.job = self.queue.waiting.pop()
            worker.line.send(worker.job)
        else:
            del self.busy[worker.line]
            worker.line.close()

    def close(self) -> None:
        """End the workers: at their next recorded round after `stop`, or now."""
        for worker in self.busy.values():
            worker.process.join(timeout=10)
            worker.process.terminate()


def _work(folder: Path, line: Connection, stop: Event) -> None:
    """A worker: one job after the other, until the line is closed or the user stops it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to every process of the terminal; only the first one reacts
    while True:
        try:
            job = line.recv()
            line.send(_done(folder, job, _watcher(line, stop)))
        except (EOFError, BrokenPipeError, InterruptedError):
            return


def _done(folder: Path, job: Job, watch: Watch) -> News:
    try:
        begin = time.process_time()  # what the job costs, also on a machine that others use
        store = Store(folder)
        record = job.execute(watch, store.state(job))
        store.save(job, record, time.process_time() - begin)
    except (InterruptedError, BrokenPipeError):
        raise
    except ValueError as error:  # what does not fit is refused in words
        return News(job.work, True, str(error))
    except Exception as error:  # one failed job must not take the others with it
        return News(job.work, True, f"{type(error).__name__}: {error}")
    return News(job.work, True)


def _watcher(line: Connection, stop: Event) -> Watch:
    """Tells of the rounds, ten times a second at most; raises when the user stops it or nobody listens any more."""
    last = time.monotonic()

    def watch(rounds: int) -> None:
        nonlocal last
        if time.monotonic() - last > 0.1:
            last = time.monotonic()
            line.send(News(rounds))
            if stop.is_set():
                raise InterruptedError("stopped by the user")

    return watch


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
