"""The progress of a reproduction or a comparison: one bar for all rounds, and one for each curve that is running."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from errorfeedback.cli._progress import ProgressBars
from errorfeedback.experiments.jobs import Job
from errorfeedback.experiments.runner import Display, distinct


@contextmanager
def display(jobs: Sequence[Job], shown: bool) -> Iterator[Display]:
    """What to call with news of the jobs."""
    with ProgressBars(shown) as bars:
        yield _Jobs(bars, distinct(jobs)).show


class _Jobs:
    def __init__(self, bars: ProgressBars, jobs: Sequence[Job]) -> None:
        self.bars = bars
        self.work = {job.fingerprint: job.work for job in jobs}
        self.all = bars.add_task(f"0 of {len(self.work)} parts", total=sum(self.work.values()))
        self.rounds: dict[Job, int] = {}
        self.lines: dict[Job, int] = {}
        self.done = 0

    def show(self, job: Job, rounds: int, finished: bool) -> None:
        self.rounds[job] = max(rounds, self.rounds.get(job, 0))
        self.work.setdefault(job.fingerprint, job.work)  # a job that others have made necessary
        if finished:
            self.done += 1
            if job in self.lines:
                self.bars.remove_task(self.lines.pop(job))  # type: ignore[arg-type]
        elif job in self.lines:
            self.bars.update(self.lines[job], completed=rounds)  # type: ignore[arg-type]
        else:
            self.lines[job] = self.bars.add_task(f"  {job.problem.slug}: {job.label}", total=job.work, completed=rounds)
        done = f"{self.done} of {len(self.work)} parts"
        self.bars.update(self.all, completed=sum(self.rounds.values()), total=sum(self.work.values()), description=done)
