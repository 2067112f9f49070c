"""`errorfeedback compare DATA`: GD, EF21 with every rule, MARINA and EF14 on the same objective within the same limits."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from itertools import chain
from math import inf
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from errorfeedback.cli._data import budget_of
from errorfeedback.cli._inputs import compressor_for, objective_of, rows_of
from errorfeedback.cli.verbs._inputs import Inputs
from errorfeedback.planner.contest import Contest, Entry, hold, summary
from errorfeedback.planner.contestants import by_default, everybody
from errorfeedback.planner.network import TIMES, Links, quantity
from errorfeedback.planner.units import human_bytes, human_seconds
from errorfeedback.plots.draw import save
from errorfeedback.problems.base import curvature_of
from errorfeedback.problems.conversation import alone
from errorfeedback.report.comparison_page import comparison_page, figure, results, targets
from errorfeedback.report.page import Table as TableBlock

LONG_TIMES = {**TIMES, "min": 60.0, "h": 3600.0}


def compare(
    inputs: Inputs,
    *,
    out: Path,
    k: list[int] | None,
    budget: str,
    time: str,
    rounds: int,
    network: list[str] | None,
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
    default = by_default(objective.problem, objective.prox, networks)
    entries = hold(
        objective.problem,
        chain([default], everybody(objective.problem, k or None, compressor_for(inputs, objective))),
        rounds=rounds,
        seed=inputs.seed,
        prox=objective.prox,
        networks=networks,
        max_bytes=max_bytes,
        max_seconds=max_seconds,
    )
    contest = Contest.ranked(_printed(entries, console), str(links or ""))
    written = _write(out, contest, rows.name, _limits(max_bytes, max_seconds, rounds))
    for table in (results(contest), targets(contest)):
        _show(table, console)
    for sentence in [*([f"Network: {contest.network}"] if contest.network else []), contest.verdict()]:
        console.print(sentence, soft_wrap=True, highlight=False, markup=False)
    for path in written:
        console.print(f"Written: {path}", soft_wrap=True, highlight=False, markup=False)


def time_of(text: str) -> float:
    """Seconds, from "10min"; infinite where nothing is said."""
    seconds = quantity("time", text, LONG_TIMES) if text else inf
    if seconds <= 0:
        raise ValueError(f"time = {text!r}; it must be above 0")
    return seconds


def _printed(entries: Iterator[Entry], console: Console) -> Iterator[Entry]:
    """A line for every run when it is done."""
    for entry in entries:
        losses = f"loss {entry.final:.6g} at the end, {entry.lowest:.6g} at the lowest"
        console.print(f"{entry.label}: {losses} ({entry.stopped})", highlight=False, soft_wrap=True, markup=False)
        yield entry


def _limits(max_bytes: float, max_seconds: float, rounds: int) -> str:
    limits = [f"{rounds:,} rounds"]
    if max_bytes < inf:
        limits.append(f"{human_bytes(max_bytes)} per client up and down after the set-up")
    if max_seconds < inf:
        limits.append(f"{human_seconds(max_seconds)} on the network after the set-up")
    return ", ".join(limits)


def _write(out: Path, contest: Contest, name: str, limits: str) -> list[Path]:
    """The figure, the page, the ranking and every history."""
    command = shlex.join(["errorfeedback", *sys.argv[1:]])
    drawn = save(figure(contest), out)
    page = comparison_page(f"Methods on {name}", contest, limits, command).write_where_possible(out / "report.html")
    texts = {
        "comparison.json": json.dumps({**summary(contest), "limits": limits, "command": command}, indent=1),
        "histories.json": json.dumps({entry.label: _columns(entry) for entry in contest.entries}),
    }
    for file, text in texts.items():
        (out / file).write_text(text, encoding="utf-8")
    return [*page, *drawn, *(out / file for file in texts)]


def _columns(entry: Entry) -> dict[str, list[float | None]]:
    """A history for machines: what is not a number is null."""
    columns = dict(entry.history) | ({} if entry.seconds is None else {"network_seconds": entry.seconds})
    return {name: [value if np.isfinite(value) else None for value in column.tolist()] for name, column in columns.items()}


def _show(block: TableBlock, console: Console) -> None:
    table = Table(*block.head, title=block.caption, title_justify="left")
    for row in block.rows:
        table.add_row(*map(str, row))
    console.print(table)
