"""`errorfeedback inspect DATA --clients N`: know before you run."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from errorfeedback.data.libsvm import load
from errorfeedback.planner.inspection import Inspection
from errorfeedback.planner.inspection import inspect as look
from errorfeedback.plots.draw import save
from errorfeedback.plots.inspection import costs, rarity
from errorfeedback.problems.glm import GLM, least_squares, logistic
from errorfeedback.problems.partition import Shuffled
from errorfeedback.records.network import Network
from errorfeedback.report.inspection import page

LOSSES: dict[str, Callable[..., GLM]] = {"logistic": logistic, "squared": least_squares}
BAR = 40
"""The longest bar of a histogram, in characters."""


def inspect(
    data: str,
    *,
    clients: int,
    seed: int,
    intercept: bool,
    loss: str,
    k: list[int] | None,
    epsilon: float,
    network: str,
    every_plan: bool,
    as_json: bool,
    report: Path | None,
    draw: Path | None,
) -> None:
    """How rare are the features, and what does every theorem promise? Sorted by bits, with the winner and its reason."""
    try:
        link = Network.parse(network) if network else None
        if loss not in LOSSES:
            raise ValueError(f"loss = {loss!r}; it must be one of {', '.join(LOSSES)}")
        found = load(data)
        problem = LOSSES[loss](found.A, found.y, Shuffled(clients, seed), intercept=intercept)
        names = [*(f"index {j + 1}" for j in range(found.A.shape[1])), *(["intercept"] if intercept else [])]
        seen = look(problem, epsilon=epsilon, k=k or None, network=link, names=names)
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from error
    if report is not None:
        page(seen, found.name, shlex.join(["errorfeedback", *sys.argv[1:]])).write(report)
    drawn = [path for figure in (rarity(seen), costs(seen)) for path in save(figure, draw)] if draw is not None else []
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
    goal = f"Plans to {seen.epsilon:g} of ||grad f(0)||^2 by the theorems, the fewest bits up first"
    _table(console, goal + (f" (time: {seen.network})" if seen.network else ""), seen.head(), seen.rows(most))
    for sentence in str(seen.verdict).splitlines():
        console.print(sentence, soft_wrap=True, highlight=False, markup=False)


def _table(console: Console, title: str, head: list[str], rows: Any) -> None:
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
