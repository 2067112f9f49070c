"""`errorfeedback report DIR`: the figures and the page of a reproduction, from its stored curves, without running."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

from errorfeedback.cli._verdicts import verdicts
from errorfeedback.experiments.reproduction_page import PAGE, reproduction_page
from errorfeedback.experiments.results import reload, write
from errorfeedback.experiments.store import Store


def report(folder: Path) -> None:
    """Redraw the figures and the page of a reproduction from its stored curves."""
    results = reload(folder)
    if not results:
        raise ValueError(f"{folder} has no results; `errorfeedback reproduce --out {folder}` makes some")
    for result in results:
        write(result, Store(folder))
    console = Console()
    verdicts(results, console)
    for path in reproduction_page(results).write_where_possible(folder / PAGE):
        console.print(f"\nThe page: [bold]{path}[/bold]", soft_wrap=True)
    raise typer.Exit(0 if all(result.complete for result in results) else 1)
