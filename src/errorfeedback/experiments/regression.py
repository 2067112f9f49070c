"""What figures 2, 6 and 7 share: the three sparsity levels, the methods, and the comparison of two step sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from errorfeedback import api as ef
from errorfeedback.experiments.base import Findings, Options
from errorfeedback.experiments.curves import (
    GRADIENT,
    LARGE,
    SMALL,
    Trace,
    ahead,
    axes,
    constants_table,
    missing,
    step_table,
    times,
    traces,
)
from errorfeedback.experiments.jobs import Run
from errorfeedback.experiments.recipes import ProblemRecipe
from errorfeedback.experiments.store import Store
from errorfeedback.plots.figure import Figure, Lines
from errorfeedback.report.page import Claim
from errorfeedback.stepsizes.base import StepSize

SHARES = {"c/n = 0.05": 5, "c/n = 0.5": 50, "c/n = 0.9": 90}
"""c of the three problems with n = 100 clients."""

STANDARD = "EF21, standard step"
THEOREM = "EF21, Theorem 1"
PUBLISHED = "EF21, new step as published"
GD = "GD, 1/L"
GD_POINTS = 2_000
"""GD is done within a few rounds: record every one."""
STYLE = {STANDARD: (0, 0), THEOREM: (1, 0), PUBLISHED: (1, 1), GD: (2, 2)}
"""Colour and dash."""

Traces = Mapping[str, Trace]


@dataclass(frozen=True)
class Sweep:
    """The curves of one figure: on every problem the same."""

    recipe: Callable[[int, int], ProblemRecipe]
    """(c, seed) -> problem."""
    published: StepSize
    """The step of the published curves."""
    rounds: tuple[int, int]
    """Full and quick."""
    gd_rounds: tuple[int, int] | None = None

    def runs(self, c: int, options: Options) -> list[Run]:
        """With `--authors` only what was published, from their start."""
        start = "authors" if options.authors else "zero"
        rules: dict[str, StepSize] = {STANDARD: ef.EF21Standard(), PUBLISHED: self.published}
        if not options.authors:
            rules[THEOREM] = ef.RareFeatures()
        problem, rounds = self.recipe(c, options.seed), options.horizon(*self.rounds)
        made = [
            Run(problem, name, ef.EF21(ef.TopK(1), start=start), rule, rounds, options.seed, options.points)
            for name, rule in rules.items()
        ]
        if self.gd_rounds is not None:
            made.append(Run(problem, GD, ef.DGD(), ef.InverseL(), options.horizon(*self.gd_rounds), options.seed, GD_POINTS))
        return made

    def all_runs(self, options: Options) -> list[Run]:
        return [run for c in SHARES.values() for run in self.runs(c, options)]

    def load(self, options: Options, store: Store) -> dict[str, Traces]:
        """The stored curves by problem."""
        return {where: traces(store, self.runs(c, options)) for where, c in SHARES.items()}


def shown(name: str, options: Options, traces: Mapping[str, Traces], claims: Sequence[Claim], caption: str) -> Findings:
    """Figure, tables and claims of a regression experiment."""
    panels = [
        Lines(where, [curves[label].curve(*STYLE[label]) for label in STYLE if label in curves], GRADIENT)
        for where, curves in traces.items()
        if curves
    ]
    figures = [Figure(name, panels, axes(options), caption=caption)] if panels else []
    flat = [(where, curve) for where, curves in traces.items() for curve in curves.values()]
    firsts = [(where, next(iter(curves.values())).record) for where, curves in traces.items() if curves]
    return Findings(figures, claims, [constants_table(firsts), step_table(flat)] if flat else [])


def new_label(options: Options) -> str:
    """The curve that stands for the paper's new step."""
    return PUBLISHED if options.authors else THEOREM


def gap_claims(traces: Mapping[str, Traces], label: str, why: str) -> list[Claim]:
    """The paper's claim about the two steps, in three parts, for one of the readings of its new step."""
    statements = (
        f"The gap between the standard and the new step is large at c/n = 0.05 ({why})",
        f"The gap shrinks as c/n grows ({why})",
        f"The gap is negligible at c/n = 0.9 ({why})",
    )
    gaps = [_gap(traces[where], label) for where in SHARES]
    if None in gaps:
        return [missing(statement, STANDARD, label) for statement in statements]
    steps, rounds = zip(*(gap for gap in gaps if gap is not None), strict=True)
    return [
        Claim(
            statements[0],
            steps[0] >= LARGE and rounds[0] >= LARGE,
            f"the step is {times(steps[0])} larger and gets to the same gradient in {times(rounds[0])} fewer rounds "
            f"(large: at least {LARGE:g} times)",
        ),
        Claim(
            statements[1],
            steps[0] > steps[1] > steps[2],
            f"steps are {_list(steps)} times larger at c/n = 0.05, 0.5, 0.9; rounds {_list(rounds)} times fewer",
        ),
        Claim(
            statements[2],
            steps[2] <= SMALL,
            f"the step is {times(steps[2])} larger and gets to the same gradient in {times(rounds[2])} fewer rounds "
            f"(negligible: at most {SMALL:g} times, which the paper elsewhere calls a small factor)",
        ),
    ]


def theorem_claim(traces: Mapping[str, Traces]) -> Claim:
    """Theorem 1 itself, checked along the runs with its own step."""
    statement = (
        "Theorem 1 holds along the runs with its own constants: Ψ decreases as it says, and so does the mean gradient"
    )
    facts = {where: curves[THEOREM].record.facts["theorem_1"] for where, curves in traces.items() if THEOREM in curves}
    if len(facts) < len(SHARES) or None in facts.values():
        return missing(statement, THEOREM)
    return Claim(
        statement, all(fact["holds"] for fact in facts.values()), "; ".join(f"{w}: {f['text']}" for w, f in facts.items())
    )


def _gap(curves: Traces, label: str) -> tuple[float, float] | None:
    """How many times larger the new step is, and how many times fewer rounds it needs."""
    if STANDARD not in curves or label not in curves:
        return None
    new, standard = curves[label], curves[STANDARD]
    return new.gamma / standard.gamma, ahead(new, standard, "rounds")


def _list(numbers: Sequence[float]) -> str:
    return ", ".join(f"{number:.3g}" for number in numbers)
