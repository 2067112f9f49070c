"""What figures 3 and 4 share: logistic regression on LIBSVM data, EF21 standard and adaptive, and GD (section 6.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from errorfeedback import api as ef
from errorfeedback.experiments.base import Options
from errorfeedback.experiments.curves import GRADIENT, Trace, ahead, constants_table, missing, step_table, traces
from errorfeedback.experiments.jobs import Run
from errorfeedback.experiments.recipes import Libsvm, LibsvmFP32
from errorfeedback.experiments.store import Store
from errorfeedback.plots.figure import Axis, Lines
from errorfeedback.report.page import Claim, Table
from errorfeedback.stepsizes.base import StepSize

STANDARD = "EF21, standard step"
ADAPTIVE = "EF21, adaptive"
PUBLISHED = "EF21, adaptive as published"
GD = "GD, 1/L"
STYLE = {STANDARD: (0, 0), ADAPTIVE: (1, 0), PUBLISHED: (1, 1), GD: (2, 2)}
"""Colour and dash."""

EF21_ROUNDS, GD_ROUNDS = (100_000, 1_500), (1_500, 150)
"""Full and quick."""

Traces = Mapping[str, Trace]


def runs(name: str, options: Options) -> list[Run]:
    """The curves on one data set; with `--authors` only what was published, from their start, in FP32."""
    start = "authors" if options.authors else "zero"
    rules: dict[str, StepSize] = {STANDARD: ef.EF21Standard(), PUBLISHED: ef.Adaptive(alpha="K/d")}
    if not options.authors:
        rules[ADAPTIVE] = ef.Adaptive()
    recipe = LibsvmFP32 if options.authors else Libsvm
    problem, rounds = recipe(name, options.seed), options.horizon(*EF21_ROUNDS)
    method = ef.EF21(ef.TopK(1), start=start)
    made = [Run(problem, label, method, rule, rounds, options.seed, options.points) for label, rule in rules.items()]
    gd_rounds = options.horizon(*GD_ROUNDS)
    return [*made, Run(problem, GD, ef.DGD(), ef.InverseL(), gd_rounds, options.seed, points=gd_rounds)]


def precision(options: Options) -> str:
    """What the curves were computed in, for a caption."""
    if options.authors:
        return "Computed in single precision (FP32), as in the paper."
    return "Computed in double precision; the paper used FP32, and so does --authors."


def load(names: Sequence[str], options: Options, store: Store) -> dict[str, Traces]:
    """The stored curves by data set."""
    return {name: traces(store, runs(name, options)) for name in names}


def panel(title: str, curves: Traces) -> Lines:
    """The stored curves of one data set."""
    return Lines(title, [curves[label].curve(*STYLE[label]) for label in STYLE if label in curves], GRADIENT)


def side_panel(title: str, curves: Traces, column: str, y: Axis) -> Lines:
    """Another column of the EF21 curves, beside a panel that has the legend."""
    shown = [curves[label].curve(*STYLE[label], column=column) for label in STYLE if label in curves and label != GD]
    return Lines(title, shown, y, legend=False)


def tables(traces: Mapping[str, Traces]) -> list[Table]:
    flat = [(name, curve) for name, curves in traces.items() for curve in curves.values()]
    firsts = [(name, next(iter(curves.values())).record) for name, curves in traces.items() if curves]
    return [constants_table(firsts), step_table(flat)] if flat else []


def adaptive_labels(options: Options) -> list[str]:
    """Both readings of alpha, or with `--authors` theirs alone."""
    return [PUBLISHED] if options.authors else [ADAPTIVE, PUBLISHED]


def adaptive_is_ahead(traces: Mapping[str, Traces], label: str) -> Claim:
    """Whether the adaptive step gets to the common level first, on every data set, and stays finite."""
    statement = f"“{label}” performs better than the standard step on {', '.join(traces)}, without stability issues"
    there = {name: curves for name, curves in traces.items() if label in curves and STANDARD in curves}
    if len(there) < len(traces):
        return missing(statement, *(f"{name}: {STANDARD} and {label}" for name in traces if name not in there))
    gains = {name: ahead(curves[label], curves[STANDARD], "rounds") for name, curves in there.items()}
    steady = all(curves[label].finished for curves in there.values())
    figures = "; ".join(f"{name}: {gain:.3g} times fewer rounds" for name, gain in gains.items())
    end = "every run stayed finite" if steady else "a run did not stay finite"
    return Claim(statement, steady and all(gain > 1 for gain in gains.values()), f"to the same gradient, {figures}; {end}")


def gd_in_bits(traces: Mapping[str, Traces], label: str) -> Claim:
    """Not a claim of the paper, but what its figure invites to ask: who is ahead per bit."""
    statement = f"(Asked of the figure, not claimed:) “{label}” gets further than GD with the bits that GD sends"
    there = {name: curves for name, curves in traces.items() if label in curves and GD in curves}
    if len(there) < len(traces):
        return missing(statement, *(f"{name}: {GD} and {label}" for name in traces if name not in there))
    ratios = {name: ahead(curves[label], curves[GD], "bits") for name, curves in there.items()}
    figures = "; ".join(f"{name}: GD needs {ratio:.3g} times the bits" for name, ratio in ratios.items())
    return Claim(statement, all(ratio > 1 for ratio in ratios.values()), f"to the same gradient, {figures}")
