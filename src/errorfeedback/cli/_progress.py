"""Bars with rounds per second and the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


class Speed(ProgressColumn):
    """Rounds per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f} rounds/s" if speed else "", style="progress.data.speed")


class ProgressBars(Progress):
    """On standard error where that is a terminal; a task's `words` stand below."""

    def __init__(self, shown: bool, console: Console | None = None) -> None:
        console = Console(stderr=True) if console is None else console
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), Speed(), TimeRemainingColumn())
        super().__init__(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        yield from (Text(task.fields["words"]) for task in self.tasks if task.fields.get("words"))


@contextmanager
def one_run(rounds: int, shown: bool) -> Iterator[Callable[[int, str], None]]:
    """What to call with the round that a run of at most `rounds` is at, and with what there is to say about it."""
    with ProgressBars(shown) as bars:
        bar = bars.add_task("starting", total=rounds)

        def at(t: int, words: str) -> None:
            bars.update(bar, completed=t, description=f"round {t:,} of at most {rounds:,}", words=words)

        yield at
