"""`errorfeedback inspect DATA --clients N`: know before you run."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from errorfeedback.cli._inputs import compressor_for, objective_of, rows_of
from errorfeedback.cli.verbs._inputs import Inputs
from errorfeedback.planner.inspection import Inspection
from errorfeedback.planner.inspection import inspect as inspect_problem
from errorfeedback.planner.network import Links
from errorfeedback.plots.draw import save
from errorfeedback.problems.conversation import alone
from errorfeedback.report.comparison_page import results
from errorfeedback.report.inspection_figures import costs, promises, rarity
from errorfeedback.report.inspection_page import inspection_page

BAR = 40
"""The longest bar of a histogram, in characters."""


def inspect(
    inputs: Inputs,
    *,
    k: list[int] | None,
    epsilon: float,
    network: list[str] | None,
    rounds: int,
    every_plan: bool,
    as_json: bool,
    report: Path | None,
    draw: Path | None,
) -> None:
    """What to run on these data, how rare their features are, and what every theorem promises."""
    links = Links.parse(network) if network else None
    rows = alone(lambda seat: rows_of(inputs, seat))
    objective, names = objective_of(inputs, rows)
    seen = inspect_problem(
        objective.problem,
        epsilon=epsilon,
        k=k or None,
        network=links,
        names=names,
        prox=objective.prox,
        rounds=rounds,
        compress=compressor_for(inputs, objective),
        begin=objective.begin,
    )
    if report is not None:
        inspection_page(seen, rows.name, shlex.join(["errorfeedback", *sys.argv[1:]])).write(report)
    figures = (rarity, promises, costs)
    drawn = [] if draw is None else [path for figure in figures for path in save(figure(seen), draw)]
    if as_json:
        print(json.dumps(seen.json(), indent=1))
        return
    console = Console()
    show(seen, console, None if every_plan else 15)
    for path in [*([report] if report else []), *drawn]:
        console.print(f"Written: [bold]{path}[/bold]", soft_wrap=True)


def show(seen: Inspection, console: Console, most: int | None) -> None:
    """Tables and bars on a terminal."""
    _table(console, seen.census.title, ["", ""], seen.facts())
    _bars(console, "clients per feature", "features", seen.census.rarity)
    _bars(console, "features per client", "clients", seen.census.holdings)
    head = ["constant", "value", "how it was computed"]
    _table(console, "Constants", head, [(c.name, c.value, c.how) for c in seen.constants])
    _table(console, seen.goal(), seen.head(), seen.rows(most))
    if seen.trial is not None:
        tried = results(seen.trial.contest)
        _table(console, f"Trial of {seen.trial.rounds} simulated rounds. {tried.caption}", tried.head, tried.rows)
    for sentence in str(seen.verdict).splitlines():
        console.print(sentence, soft_wrap=True, highlight=False, markup=False)


def _table(console: Console, title: str, head: Sequence[str], rows: Any) -> None:
    table = Table(*head, title=title, title_justify="left", show_header=any(head))
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _bars(console: Console, title: str, unit: str, heights: dict[str, int]) -> None:
    """A histogram: one line per bin."""
    table = Table(title, "", unit, title_justify="left")
    tallest = max(heights.values())
    for label, height in heights.items():
        table.add_row(label, "█" * -(-BAR * height // tallest), f"{height:,}")
    console.print(table)
