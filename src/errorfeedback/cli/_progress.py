"""Progress bars: one for all rounds with rounds per second and time left, one line for each curve that is running."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

from errorfeedback.experiments.jobs import Job
from errorfeedback.experiments.runner import Told, distinct


class Speed(ProgressColumn):
    """Rounds per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f} rounds/s" if speed else "", style="progress.data.speed")


@contextmanager
def display(jobs: Sequence[Job], shown: bool) -> Iterator[Told]:
    """What to call with news of the jobs; draws on standard error, and only if asked to."""
    if not shown:
        yield lambda job, rounds, finished: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), Speed(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield _Bars(bars, distinct(jobs)).told


class _Bars:
    def __init__(self, bars: Progress, jobs: Sequence[Job]) -> None:
        self.bars, self.total = bars, len(jobs)
        self.all = bars.add_task(f"0 of {self.total} parts", total=sum(job.work for job in jobs))
        self.rounds: dict[Job, int] = {}
        self.lines: dict[Job, int] = {}
        self.done = 0

    def told(self, job: Job, rounds: int, finished: bool) -> None:
        self.rounds[job] = max(rounds, self.rounds.get(job, 0))
        if finished:
            self.done += 1
            if job in self.lines:
                self.bars.remove_task(self.lines.pop(job))  # type: ignore[arg-type]
        elif job in self.lines:
            self.bars.update(self.lines[job], completed=rounds)  # type: ignore[arg-type]
        else:
            self.lines[job] = self.bars.add_task(f"  {job.problem.slug}: {job.label}", total=job.work, completed=rounds)
        self.bars.update(self.all, completed=sum(self.rounds.values()), description=f"{self.done} of {self.total} parts")
