"""Figure 1: EF21 + TopK against MARINA + PermK and MARINA + RandK on the auto-encoder (section 3.1).

The auto-encoder has no smoothness constant, so no theorem gives a step: each method gets the best constant step 2^k,
as in Szlendak et al. (2022), where the published figure is from. K = d/n, so that every method sends d/n numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from errorfeedback import api as ef
from errorfeedback.experiments.base import Experiment, Findings, Options
from errorfeedback.experiments.curves import GRADIENT, Trace, axes, common_level, missing, step_table, tail, traces
from errorfeedback.experiments.jobs import Job, Run
from errorfeedback.experiments.recipes import Images
from errorfeedback.experiments.store import Store
from errorfeedback.methods.base import Method
from errorfeedback.plots.figure import Figure, Lines
from errorfeedback.report.page import Claim

TOPK, PERMK, RANDK = "EF21 + TopK", "MARINA + PermK", "MARINA + RandK"
STYLE = {TOPK: (1, 0), PERMK: (0, 0), RANDK: (3, 1)}
"""Colour and dash."""
POINTS = 100
"""How many rounds of a run are recorded."""
SIMILAR, MUCH = 2.0, 3.0
"""“Similar”: within this factor; “much faster”: at least by this factor."""


@dataclass(frozen=True)
class Task:
    """One panel: the images, the clients, the code and the exponents of the step."""

    source: str
    n: int
    code: int
    exponents: range
    rounds: tuple[int, int]

    @property
    def title(self) -> str:
        return f"{self.source}, n = {self.n}"

    def runs(self, options: Options) -> dict[str, list[Run]]:
        """The grid of steps for each method."""
        problem = Images(self.source, self.n, self.code, options.seed)
        k = max(1, 2 * PIXELS[self.source] * self.code // self.n)
        methods: dict[str, Method] = {
            TOPK: ef.EF21(ef.TopK(k)),
            PERMK: ef.MARINA(ef.PermK()),
            RANDK: ef.MARINA(ef.RandK(k)),
        }
        rounds = options.horizon(*self.rounds)
        return {
            name: [
                Run(problem, f"{name}, γ = 2^{e}", method, ef.Constant(2.0**e), rounds, options.seed, POINTS)
                for e in self.exponents
            ]
            for name, method in methods.items()
        }


PIXELS = {"digits": 64, "mnist": 784}
TASKS = (
    Task("digits", 10, 8, range(-8, -3), (2_000, 150)),
    Task("digits", 100, 8, range(-8, -3), (2_000, 150)),
    Task("mnist", 100, 16, range(-13, -8), (400, 100)),
)


class Figure1(Experiment):
    name = "figure-1"
    title = "Auto-encoder: EF21 against MARINA"
    says = (
        "“EF21 + TopK has similar performance to MARINA + PermK, and both are much faster than MARINA with the naive RandK "
        "compressor.”"
    )
    needs = "nothing (digits); MNIST's test images where found"

    def jobs(self, options: Options) -> Sequence[Job]:
        return [run for task in _tasks(options) for grid in task.runs(options).values() for run in grid]

    def findings(self, options: Options, store: Store) -> Findings:
        traces = {task.title: _best(task, options, store) for task in _tasks(options)}
        claims = [claim(curves, title) for title, curves in traces.items() for claim in (similar, much_faster)]
        panels = [
            Lines(title, [curves[name].curve(*STYLE[name]) for name in STYLE if name in curves], GRADIENT)
            for title, curves in traces.items()
            if curves
        ]
        caption = (
            "No theorem gives a step here, so each method runs with its best constant step 2^k (the smallest squared "
            "gradient norm over the last tenth). K = d/n; MARINA sends everything with probability K/d."
        )
        figures = [Figure(self.name, panels, axes(options), caption=caption)] if panels else []
        rows = [(title, curve) for title, curves in traces.items() for curve in curves.values()]
        return Findings(figures, claims, [step_table(rows)] if rows else [])


def _tasks(options: Options) -> list[Task]:
    return [task for task in TASKS if task.source in options.images]


def _best(task: Task, options: Options, store: Store) -> dict[str, Trace]:
    """For each method the run with the best step among the stored ones."""
    grids = {name: traces(store, grid) for name, grid in task.runs(options).items()}
    chosen = {name: min(grid.values(), key=tail) for name, grid in grids.items() if grid}
    return {name: Trace(name, trace.record) for name, trace in chosen.items()}


def _bits(curves: Mapping[str, Trace]) -> dict[str, float]:
    """The bits each method needs to the level that all reach."""
    level = common_level(*curves.values())
    return {name: curve.reach(level, "bits") for name, curve in curves.items()}


def similar(curves: Mapping[str, Trace], title: str) -> Claim:
    statement = f"{title}: EF21 + TopK performs like MARINA + PermK"
    if len(curves) < len(STYLE):
        return missing(statement, *(name for name in STYLE if name not in curves))
    bits = _bits(curves)
    ratio = bits[TOPK] / bits[PERMK]
    figures = f"EF21 needs {ratio:.3g} times the bits of MARINA + PermK to the gradient that all three reach"
    return Claim(statement, 1 / SIMILAR <= ratio <= SIMILAR, f"{figures} (similar: within {SIMILAR:g} times)")


def much_faster(curves: Mapping[str, Trace], title: str) -> Claim:
    statement = f"{title}: both are much faster than MARINA + RandK"
    if len(curves) < len(STYLE):
        return missing(statement, *(name for name in STYLE if name not in curves))
    bits = _bits(curves)
    gains = {name: bits[RANDK] / bits[name] for name in (TOPK, PERMK)}
    figures = f"RandK needs {gains[TOPK]:.3g} times the bits of EF21 + TopK and {gains[PERMK]:.3g} times those of PermK"
    return Claim(statement, min(gains.values()) >= MUCH, f"{figures} (much: at least {MUCH:g} times)")
