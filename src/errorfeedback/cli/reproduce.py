"""`errorfeedback reproduce`: the paper's figures and tables, computed again.

Exit codes: 0 everything asked for is there (claims that do not hold are results, not failures); 1 something is missing or
failed; 2 the command was wrong; 130 interrupted.
"""

from __future__ import annotations

import json
import shlex
import sys
import time
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from errorfeedback.cli._jobs import display
from errorfeedback.cli._verdicts import verdicts
from errorfeedback.experiments.base import Options
from errorfeedback.experiments.catalogue import catalogue, chosen
from errorfeedback.experiments.recipes import mnist_file
from errorfeedback.experiments.reproduction_page import PAGE, reproduction_page
from errorfeedback.experiments.results import collect, reload, summary, write
from errorfeedback.experiments.runner import cores, run_jobs, without_data
from errorfeedback.experiments.store import Store


def reproduce(
    names: list[str] | None,
    *,
    show: bool,
    quick: bool,
    rounds: int | None,
    authors: bool,
    seed: int,
    out: Path,
    jobs: int | None,
    progress: bool,
    as_json: bool,
) -> None:
    """Compute the paper's figures and tables again, check its claims, and write a page about it."""
    console = Console(quiet=as_json)
    if show:
        _list(as_json)
        return
    experiments = chosen(names or [])
    images = ("digits", "mnist") if mnist_file() is not None and not quick else ("digits",)
    options = Options(rounds, quick, authors, seed, images)
    store, begin = Store(out), time.perf_counter()
    wanted = [job for experiment in experiments for job in experiment.jobs(options)]
    reasons = without_data([job for job in wanted if not store.has(job)])
    runnable = [job for job in wanted if job not in reasons]
    command = shlex.join(["errorfeedback", *sys.argv[1:]])
    try:
        with display([job for job in runnable if not store.has(job)], progress and console.is_terminal) as display_news:
            reasons |= run_jobs(runnable, store, workers=jobs or cores(), display=display_news)
    except KeyboardInterrupt:
        done = sum(map(store.has, wanted))
        stored = f"{done} of {len(wanted)} parts are stored in {out}"
        console.print(f"\nInterrupted: {stored}; the same command continues there.", soft_wrap=True)
        raise typer.Exit(130) from None
    results = [collect(experiment, options, store, command, reasons) for experiment in experiments]
    for result in results:
        write(result, store)
    pages = reproduction_page(reload(out)).write_where_possible(out / PAGE)
    complete = all(result.complete for result in results)
    if as_json:
        listing = {
            "page": str(pages[0]) if pages else None,
            "complete": complete,
            "experiments": [summary(result, store) for result in results],
        }
        print(json.dumps(listing, indent=1, ensure_ascii=False))
    verdicts(results, console)
    console.print(
        f"\n{time.perf_counter() - begin:.1f} s.", *(f"The page: [bold]{path}[/bold]" for path in pages), soft_wrap=True
    )
    raise typer.Exit(0 if complete else 1)


def _list(as_json: bool) -> None:
    experiments = catalogue().values()
    if as_json:
        print(json.dumps([{"name": e.name, "title": e.title, "needs": e.needs} for e in experiments], indent=1))
        return
    table = Table("name", "what", "data it needs")
    for experiment in experiments:
        table.add_row(experiment.name, experiment.title, experiment.needs)
    Console().print(table)
