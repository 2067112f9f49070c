"""`errorfeedback compare DATA`: methods on the same objective within the same limits, kept and continued.

Exit codes: 0 done; 2 the command was wrong; 130 interrupted (the same command goes on).
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from math import inf
from pathlib import Path

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from errorfeedback.cli._data import budget_of
from errorfeedback.cli._inputs import compressor_for, objective_of, rows_of
from errorfeedback.cli._jobs import display
from errorfeedback.cli._run_files import history_columns
from errorfeedback.cli.verbs._inputs import Inputs
from errorfeedback.comparison.comparison import Asked, Comparison, carry_out_schedule, compared, scheduled, with_steps
from errorfeedback.comparison.contest_run import Given, Limits
from errorfeedback.comparison.schedule import Schedule
from errorfeedback.estimators.objective import Objective
from errorfeedback.experiments.jobs import Job
from errorfeedback.experiments.runner import Display, cores
from errorfeedback.experiments.store import Store
from errorfeedback.planner.contest import Entry, summary
from errorfeedback.planner.contestants import by_default, everybody
from errorfeedback.planner.field import ALL, chosen_entrants, entrants
from errorfeedback.planner.network import TIMES, Links, Network, quantity
from errorfeedback.planner.units import human_bytes, human_seconds
from errorfeedback.plots.draw import COLUMN, save
from errorfeedback.problems.base import curvature_of
from errorfeedback.problems.conversation import alone
from errorfeedback.report.comparison_figures import QUANTITIES, axes, overview, shown_first, single
from errorfeedback.report.comparison_page import comparison_page, results, targets
from errorfeedback.report.page import Table as TableBlock

LONG_TIMES = {**TIMES, "min": 60.0, "h": 3600.0}


def compare(
    inputs: Inputs,
    *,
    out: Path,
    methods: list[str] | None,
    seeds: int,
    k: list[int] | None,
    budget: str,
    time: str,
    rounds: int,
    network: list[str] | None,
    jobs: int | None,
) -> None:
    """Loss against bytes and time of all methods on the objective of `train`; who gets there first, and at what price."""
    console = Console()
    links = Links.parse(network) if network else None
    given = budget_of(budget)
    max_bytes, max_seconds = inf if given is None else given, time_of(time)
    if max_seconds < inf and links is None:
        raise ValueError(f"--time {time} is counted on a network; say which with --network")
    rows = alone(lambda seat: rows_of(inputs, seat))
    objective, _ = objective_of(inputs, rows)
    curvature_of(
        objective.problem
    )  # the rules of most methods need a bound: that there is none is said before the first run
    networks = None if links is None else links.of(objective.clients.tolist())
    limits = Limits(max_bytes, max_seconds, tuple(networks) if networks is not None and max_seconds < inf else None)
    asked = Asked(rounds, seeds, inputs.seed, limits)
    schedule = _schedule(inputs, objective, rows.name, methods, k, networks, asked, Store(out))
    with _interruptible(schedule, console), _progress(schedule, console) as news:
        carry_out_schedule(schedule, jobs or cores(), news)
    comparison = compared(schedule, networks, str(links or ""))
    written = _write(out, comparison, rows.name, _limits(max_bytes, max_seconds, rounds, seeds))
    written += _write_for_a_paper(out, comparison) if methods else []
    for table in (results(comparison.contest), targets(comparison.contest)):
        _show(table, console)
    sentences = [f"Network: {comparison.contest.network}"] if comparison.contest.network else []
    sentences += [f"Left out: {label}: {reason}" for label, reason in comparison.left_out.items()]
    for sentence in [*sentences, comparison.contest.verdict(), *(f"Written: {path}" for path in written)]:
        console.print(sentence, soft_wrap=True, highlight=False, markup=False)


def _schedule(
    inputs: Inputs,
    objective: Objective,
    name: str,
    methods: list[str] | None,
    k: list[int] | None,
    networks: Sequence[Network] | None,
    asked: Asked,
    store: Store,
) -> Schedule:
    """Those that are named with all their step sizes; where nobody is named GD, EF21, MARINA and EF14 with every rule."""
    problem, compress = objective.problem, compressor_for(inputs, objective)
    default = by_default(problem, objective.prox, networks, objective.begin)
    recipe = Given.of(name, problem, objective.prox)
    if not methods:
        return scheduled(recipe, list(chain([default], everybody(problem, k or None, compress))), (), asked, store)
    named = [word for words in methods for word in words.split(",")]
    field = [entrant for level in k or [1] for entrant in entrants(level, compress)]
    climbers = list(dict.fromkeys(chosen_entrants(named, field)))
    train = [default] if ALL in named else []
    return scheduled(recipe, [*train, *with_steps(problem, climbers)], climbers, asked, store)


@contextmanager
def _interruptible(schedule: Schedule, console: Console) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        where = schedule.store.folder
        console.print(f"\nInterrupted: what is finished is stored in {where}; the same command goes on.", soft_wrap=True)
        raise typer.Exit(130) from None


@contextmanager
def _progress(schedule: Schedule, console: Console) -> Iterator[Display]:
    """Bars, and a line for every run when it is done."""
    with display(schedule.wanted(), console.is_terminal) as bars:

        def news(job: Job, rounds: int, finished: bool) -> None:
            bars(job, rounds, finished)
            if finished:
                console.print(_line(job, schedule.store), highlight=False, soft_wrap=True, markup=False)

        yield news


def _line(job: Job, store: Store) -> str:
    record = store.load(job)
    if record is None:
        return f"{job.label}: could not take part"
    losses = record.columns["f"]
    lowest = np.where(np.isfinite(losses), losses, inf).min()
    return f"{job.label}: loss {losses[-1]:.6g} at the end, {lowest:.6g} at the lowest ({record.facts['stopped']})"


def time_of(text: str) -> float:
    """Seconds, from "10min"; infinite where nothing is said."""
    seconds = quantity("time", text, LONG_TIMES) if text else inf
    if seconds <= 0:
        raise ValueError(f"time = {text!r}; it must be above 0")
    return seconds


def _limits(max_bytes: float, max_seconds: float, rounds: int, seeds: int) -> str:
    limits = [f"{rounds:,} rounds"]
    if max_bytes < inf:
        limits.append(f"{human_bytes(max_bytes)} per client up and down after the set-up")
    if max_seconds < inf:
        limits.append(f"{human_seconds(max_seconds)} on the network after the set-up")
    if seeds > 1:
        limits.append(f"{seeds} seeds")
    return ", ".join(limits)


def _write(out: Path, comparison: Comparison, name: str, limits: str) -> list[Path]:
    """The figure, the page, the ranking and every history."""
    command, contest = shlex.join(["errorfeedback", *sys.argv[1:]]), comparison.contest
    drawn = save(overview(contest), out)
    page = comparison_page(f"Methods on {name}", contest, comparison.left_out, limits, command)
    about = {**summary(contest), "left_out": dict(comparison.left_out), "limits": limits, "command": command}
    texts = {
        "comparison.json": json.dumps(about, indent=1),
        "histories.json": json.dumps({entry.label: _columns(entry) for entry in contest.entries}),
    }
    for file, text in texts.items():
        (out / file).write_text(text, encoding="utf-8")
    pages = page.write_where_possible(out / "report.html")
    return [*pages, *drawn, *(out / file for file in texts)]


def _write_for_a_paper(out: Path, comparison: Comparison) -> list[Path]:
    """The table as CSV and LaTeX, and both quantities over every axis in the width of a column."""
    contest, figures = comparison.contest, out / "figures"
    for of in QUANTITIES:
        for over in axes(contest):
            save(single(contest, shown_first(contest), of, over), figures, COLUMN)
    return [comparison.to_csv(out / "table.csv"), comparison.to_latex(out / "table.tex"), figures]


def _columns(entry: Entry) -> dict[str, list[float | None]]:
    return history_columns(dict(entry.history) | ({} if entry.seconds is None else {"network_seconds": entry.seconds}))


def _show(block: TableBlock, console: Console) -> None:
    table = Table(*block.head, title=block.caption, title_justify="left")
    for row in block.rows:
        table.add_row(*map(str, row))
    console.print(table)
