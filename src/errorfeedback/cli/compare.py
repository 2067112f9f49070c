"""`errorfeedback compare DATA`: GD, EF21 with every rule, MARINA and EF14 on the same data and budget."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from errorfeedback import stepsizes
from errorfeedback.cli._data import budget_of, clear_errors
from errorfeedback.cli._inputs import objective_of, rows_of
from errorfeedback.cli.verbs._inputs import Inputs
from errorfeedback.compressors.base import Compressor
from errorfeedback.compressors.rand_k import RandK
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import Floats
from errorfeedback.estimators.training import traffic
from errorfeedback.methods.base import Method
from errorfeedback.methods.dgd import DGD
from errorfeedback.methods.ef14 import EF14
from errorfeedback.methods.ef21 import EF21
from errorfeedback.methods.marina import MARINA
from errorfeedback.planner.verdict import human_seconds
from errorfeedback.plots.draw import save
from errorfeedback.plots.figure import Axis
from errorfeedback.problems.base import Problem
from errorfeedback.records.history import History
from errorfeedback.records.network import Links, elapsed
from errorfeedback.registry import members
from errorfeedback.report.page import Cell
from errorfeedback.report.page import Table as TableBlock
from errorfeedback.report.training import Traces, comparison_page
from errorfeedback.runtime.solve import solve
from errorfeedback.runtime.stopping import Budget
from errorfeedback.stepsizes.base import Fixed, StepSize
from errorfeedback.stepsizes.best import Best
from errorfeedback.stepsizes.constant import Constant
from errorfeedback.stepsizes.theory import analyse

TARGETS = (0.5, 0.1, 0.01, 0.001)
"""Shares of the way from the start to the best loss that anybody found."""


def compare(inputs: Inputs, *, out: Path, k: int, budget: str, rounds: int, network: list[str] | None) -> None:
    """Loss against bytes of all methods on the objective of `train`, and what each needs for every target."""
    console = Console()
    with clear_errors():
        links = Links.parse(network) if network else None
        allowed = budget_of(budget)
        found = rows_of(inputs)
        objective, _ = objective_of(inputs, found)
        problem = objective.problem
        each = None if links is None else links.of(objective.clients.tolist())
        runs: dict[str, History] = {}
        wire: dict[str, Floats] = {}
        for label, method, rule in contestants(problem, k):
            stop = [] if allowed is None else [Budget(bytes=allowed)]
            run = solve(problem, method, rule, rounds=rounds, seed=inputs.seed, stop=stop, prox=objective.prox)
            runs[label] = run.history
            if each is not None:
                wire[label] = elapsed(run.history, *traffic(run.theory), each)
            console.print(f"{label}: loss {np.nanmin(run.history['f']):.6g}", highlight=False, soft_wrap=True)
    traces = Traces(runs, problem.n, str(links or ""), wire)
    targets = needs(traces)
    figure = traces.figure("loss", "f", Axis("loss", log=True))
    command = shlex.join(["errorfeedback", *sys.argv[1:]])
    drawn = save(figure, out)
    pages = comparison_page(f"Methods on {found.name}", targets, figure, command).write_where_possible(out / "report.html")
    stored = {label: {name: column.tolist() for name, column in h.items()} for label, h in runs.items()}
    for label, seconds in wire.items():
        stored[label]["network_seconds"] = seconds.tolist()
    (out / "histories.json").write_text(json.dumps(stored), encoding="utf-8")
    table = Table(*targets.head, title=targets.caption, title_justify="left")
    for row in targets.rows:
        table.add_row(*map(str, row))
    console.print(table)
    for path in [*pages, *drawn]:
        console.print(f"Written: {path}", soft_wrap=True, highlight=False)


def contestants(problem: Problem, k: int) -> Iterator[tuple[str, Method, StepSize]]:
    """Every method with every rule that is made for it; rules that agree on gamma are one. EF14 has no rule and gets 1/L."""
    top, rand = TopK(k), RandK(k)
    for method in (DGD(), EF21(top), MARINA(rand)):
        bound, theory = method.bind(problem.support), analyse(problem, method.compressor)
        same: dict[float | str, tuple[list[str], StepSize]] = {}
        for name, kind in members(stepsizes, StepSize).items():  # type: ignore[type-abstract]
            if kind not in (Constant, Best) and isinstance(method, kind.methods):
                rule = kind()
                key = rule.gamma(theory, bound) if isinstance(rule, Fixed) else name
                same.setdefault(key, ([], rule))[0].append(name)
        for names, rule in same.values():
            yield f"{_name(method)}, {' = '.join(names)}", method, rule
    for other in (EF21(top), EF14(top)):
        yield f"{_name(other)}, 1/L", other, Constant(1.0 / analyse(problem).L)


def _name(method: Method) -> str:
    compressor: Compressor = method.compressor
    return "GD" if isinstance(method, DGD) else f"{type(method).__name__} {type(compressor).__name__}"


def needs(traces: Traces) -> TableBlock:
    """What every run needs until its loss is within a share of the way from the start to the best."""
    start = next(iter(traces.runs.values()))["f"][0]
    best = min(float(np.nanmin(h["f"])) for h in traces.runs.values())
    levels = [best + share * (start - best) for share in TARGETS]
    rows: list[list[Cell]] = [[label, *(_reach(traces, label, level) for level in levels)] for label in traces.runs]
    caption = f"Bytes up per client / rounds{' / time on the network' if traces.wire else ''} until the loss is there"
    return TableBlock(["method", *(f"loss {level:.5g}" for level in levels)], rows, caption)


def _reach(traces: Traces, label: str, level: float) -> str:
    history = traces.runs[label]
    there = np.flatnonzero(history["f"] <= level)
    if not len(there):
        return "-"
    first = there[0]
    cells = [f"{history['uplink_bits'][first] / 8 / traces.n:,.0f}", f"{history['round'][first]}"]
    return " / ".join([*cells, *([human_seconds(float(traces.wire[label][first]))] if traces.wire else [])])
