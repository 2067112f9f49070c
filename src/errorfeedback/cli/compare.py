"""`errorfeedback compare DATA`: GD, EF21 with every rule, MARINA and EF14 on the same data and budget."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from errorfeedback import stepsizes
from errorfeedback.cli._data import budget_of, clear_errors, groups_of
from errorfeedback.compressors.base import Compressor
from errorfeedback.compressors.rand_k import RandK
from errorfeedback.compressors.top_k import TopK
from errorfeedback.estimators.training import even
from errorfeedback.methods.base import Method
from errorfeedback.methods.dgd import DGD
from errorfeedback.methods.ef14 import EF14
from errorfeedback.methods.ef21 import EF21
from errorfeedback.methods.marina import MARINA
from errorfeedback.plots.draw import save
from errorfeedback.problems.glm import logistic
from errorfeedback.problems.scaling import scaled
from errorfeedback.problems.tables import read
from errorfeedback.records.history import History
from errorfeedback.registry import members
from errorfeedback.report.page import Cell
from errorfeedback.report.training import comparison_page, losses
from errorfeedback.runtime.solve import solve
from errorfeedback.runtime.stopping import Budget
from errorfeedback.stepsizes.base import StepSize
from errorfeedback.stepsizes.constant import Constant
from errorfeedback.stepsizes.theory import Theory, analyse

TARGETS = (0.5, 0.1, 0.01, 0.001)
"""Shares of the way from the start to the best loss that anybody found."""


def compare(
    data: Annotated[str, typer.Argument(metavar="DATA", help="LIBSVM, .csv, .tsv, .parquet, .npz, or a known name.")],
    out: Annotated[Path, typer.Option(help="Folder for the figure, the table and the report.")],
    clients: Annotated[int, typer.Option(min=1, help="Deal the rows evenly to that many clients.")] = 300,
    groups: Annotated[Path | None, typer.Option(help="A file that names the client of each row, one per line.")] = None,
    client_column: Annotated[str | None, typer.Option(help="The column of a table that names the client.")] = None,
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Numbers that a compressed message holds.")] = 1,
    scale: Annotated[bool, typer.Option(help="Bring all features to the same curvature first.")] = True,
    budget: Annotated[str, typer.Option(help="Bytes up per client for every method.")] = "20kB",
    rounds: Annotated[int, typer.Option(min=1, help="At most that many rounds.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the deal and of random compressors.")] = 0,
) -> None:
    """Loss against bytes of all methods (two classes, logistic loss, no penalty), and what each needs for every target."""
    console = Console()
    with clear_errors():
        found = read(data, target=target, client_column=client_column)
        names = groups_of(groups, found)
        dealt = even(found.A.shape[0], clients, seed) if names is None else names
        problem = logistic(found.A, found.y if found.y is not None else [], dealt, intercept=True)
        inner = scaled(problem) if scale else problem
        allowed = budget_of(budget)
        runs: dict[str, History] = {}
        for label, method, rule in contestants(analyse(inner, TopK(k)), k):
            stop = [] if allowed is None else [Budget(bytes=allowed)]
            runs[label] = solve(inner, method, rule, rounds=rounds, seed=seed, stop=stop).history
            console.print(f"{label}: loss {np.nanmin(runs[label]['f']):.6g}", highlight=False, soft_wrap=True)
    head, rows = targets(runs, problem.n)
    figure = losses("loss", runs, problem.n)
    command = shlex.join(["errorfeedback", *sys.argv[1:]])
    drawn = save(figure, out)
    page = comparison_page(f"Methods on {found.name}", head, rows, figure, command).write(out / "report.html")
    stored = {label: {name: column.tolist() for name, column in h.items()} for label, h in runs.items()}
    (out / "histories.json").write_text(json.dumps(stored), encoding="utf-8")
    table = Table(*head, title="Bytes up per client / rounds until the loss is there", title_justify="left")
    for row in rows:
        table.add_row(*map(str, row))
    console.print(table)
    for path in [page, *drawn]:
        console.print(f"Written: {path}", soft_wrap=True, highlight=False)


def contestants(theory: Theory, k: int) -> Iterator[tuple[str, Method, StepSize]]:
    """Every method with every rule that is made for it; EF14 has no rule of its own and gets GD's 1/L."""
    top, rand = TopK(k), RandK(k)
    for method in (DGD(), EF21(top), MARINA(rand)):
        for name, rule in members(stepsizes, StepSize).items():  # type: ignore[type-abstract]
            if rule is not Constant and isinstance(method, rule.methods):
                yield f"{_name(method)}, {name}", method, rule()
    yield f"{_name(EF21(top))}, 1/L", EF21(top), Constant(1.0 / theory.L)
    yield f"{_name(EF14(top))}, 1/L", EF14(top), Constant(1.0 / theory.L)


def _name(method: Method) -> str:
    compressor: Compressor = method.compressor
    return "GD" if isinstance(method, DGD) else f"{type(method).__name__} {type(compressor).__name__}"


def targets(runs: dict[str, History], n: int) -> tuple[list[str], list[list[Cell]]]:
    """What every run needs until its loss is within a share of the way from the start to the best."""
    start = next(iter(runs.values()))["f"][0]
    best = min(float(np.nanmin(h["f"])) for h in runs.values())
    levels = [best + share * (start - best) for share in TARGETS]
    rows: list[list[Cell]] = [[label, *(_reach(h, level, n) for level in levels)] for label, h in runs.items()]
    return ["method", *(f"loss {level:.5g}" for level in levels)], rows


def _reach(history: History, level: float, n: int) -> str:
    there = np.flatnonzero(history["f"] <= level)
    if not len(there):
        return "-"
    return f"{history['uplink_bits'][there[0]] / 8 / n:,.0f} / {history['round'][there[0]]}"
