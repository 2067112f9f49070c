"""EF21 against EF14 with growing step sizes (Richtarik, Sokolov, Fatkhullin 2021, section 5, experiment 1).

Logistic regression with the penalty 0.1 sum_j x_j^2/(1 + x_j^2), n = 20 clients, Top1. Both methods run with the step that
EF21's theorem gives, 1/(L + L_tilde xi(1/d)), and with multiples of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import sqrt

from errorfeedback import api as ef
from errorfeedback.experiments.base import Experiment, Findings, Options
from errorfeedback.experiments.curves import GRADIENT, LARGE, Trace, axes, constants_table, missing, step_table, tail, traces
from errorfeedback.experiments.jobs import Job, Run
from errorfeedback.experiments.multiple import Multiple
from errorfeedback.experiments.recipes import PenalisedLogistic
from errorfeedback.experiments.store import Store
from errorfeedback.methods.base import Method
from errorfeedback.plots.figure import Curve, Figure, Lines
from errorfeedback.report.page import Claim

DATA = ("phishing", "mushrooms", "a9a")
CLIENTS = 20
MULTIPLES = (1, 8, 64, 512, 4096)
METHODS: dict[str, Method] = {"EF14": ef.EF14(ef.TopK(1)), "EF21": ef.EF21(ef.TopK(1), start="compressed")}
STEP = ef.EF21Standard()
ROUNDS = (10_000, 1_000)
"""Full and quick."""
ALIKE = 2.0
"""“Alike”: within this factor."""

Grids = Mapping[str, Mapping[int, Trace]]
"""Method -> multiple -> curve."""


class EF21StepTolerance(Experiment):
    name = "ef21-steps"
    title = "EF21 tolerates larger steps than EF14"
    source = "Richtárik, Sokolov, Fatkhullin 2021"
    says = (
        "With the small step of its theorem EF21 behaves like EF14; EF21 takes multiples of that step with which EF14 is "
        "thrown back: with large steps EF14 stops at a certain accuracy, and EF21 goes on."
    )
    needs = ", ".join(DATA)
    differs = (
        "bits are whole frames with indices; the constants L and L_i are those of this split of the rows; w8a is left out; "
        "multiples are powers of eight, up to 4096; the statements are in our words."
    )

    def jobs(self, options: Options) -> Sequence[Job]:
        return [run for name in DATA for grid in _runs(name, options).values() for run in grid.values()]

    def findings(self, options: Options, store: Store) -> Findings:
        loaded = {name: _loaded(name, options, store) for name in DATA}
        claims = [claim(name, grids) for name, grids in loaded.items() for claim in (alike, further, larger)]
        flat = {name: [t for grid in grids.values() for t in grid.values()] for name, grids in loaded.items()}
        there = {name: grids for name, grids in loaded.items() if flat[name]}
        panels = [Lines(name, list(_curves(grids)), GRADIENT) for name, grids in there.items()]
        caption = "The smallest, a middle and the largest multiple of the theorem's step; Top1, n = 20."
        if not panels:
            return Findings([], claims)
        tables = [
            constants_table([(name, flat[name][0].record) for name in there]),
            step_table([(name, trace) for name in there for trace in flat[name]]),
        ]
        return Findings([Figure(self.name, panels, axes(options), caption=caption)], claims, tables)


def _runs(name: str, options: Options) -> dict[str, dict[int, Run]]:
    problem, rounds = PenalisedLogistic(name, CLIENTS, options.seed), options.horizon(*ROUNDS)
    return {
        label: {
            m: Run(problem, f"{label}, {m}×", method, Multiple(STEP, m), rounds, options.seed, options.points)
            for m in MULTIPLES
        }
        for label, method in METHODS.items()
    }


def _loaded(name: str, options: Options, store: Store) -> dict[str, dict[int, Trace]]:
    """The stored curves."""
    stored = {label: traces(store, list(grid.values())) for label, grid in _runs(name, options).items()}
    return {
        label: {m: curves[f"{label}, {m}×"] for m in MULTIPLES if f"{label}, {m}×" in curves}
        for label, curves in stored.items()
    }


def _curves(grids: Grids) -> Iterator[Curve]:
    """A colour for every method, a dash for every multiple."""
    for colour, grid in enumerate(grids.values()):
        for dash, multiple in enumerate((MULTIPLES[0], MULTIPLES[2], MULTIPLES[-1])):
            if multiple in grid:
                yield grid[multiple].curve(colour, dash)


def _complete(grids: Grids) -> bool:
    return all(set(grid) == set(MULTIPLES) for grid in grids.values())


def alike(name: str, grids: Grids) -> Claim:
    """Compared halfway, on a logarithmic scale, to the higher of the two ends: EF14 stops somewhere with every step."""
    statement = f"{name}: with the theorem's own step EF21 and EF14 are alike, until EF14 stops"
    if not _complete(grids):
        return missing(statement, *METHODS)
    curves = {label: grid[1] for label, grid in grids.items()}
    ends = {label: tail(curve) for label, curve in curves.items()}
    level = sqrt(float(curves["EF14"].grad2[0]) * max(ends.values()))
    rounds = {label: curve.reach(level) for label, curve in curves.items()}
    said = "; ".join(f"{label} {rounds[label]:.3g} rounds, and {ends[label]:.3g} at the end" for label in METHODS)
    figures = f"until ‖∇f‖² is {level:.3g}: {said} (alike: within {ALIKE:g} times)"
    return Claim(statement, 1 / ALIKE <= rounds["EF21"] / rounds["EF14"] <= ALIKE, figures)


def further(name: str, grids: Grids) -> Claim:
    statement = f"{name}: with the step that is best for EF21, EF14 stops far above what EF21 reaches"
    if not _complete(grids):
        return missing(statement, *METHODS)
    step = min(MULTIPLES, key=lambda m: tail(grids["EF21"][m]))
    ends = {label: tail(grid[step]) for label, grid in grids.items()}
    figures = f"at {step}× ‖∇f‖² ends at {ends['EF14']:.3g} with EF14, at {ends['EF21']:.3g} with EF21"
    return Claim(statement, ends["EF14"] > LARGE * ends["EF21"], f"{figures} (far: more than {LARGE:g} times)")


def larger(name: str, grids: Grids) -> Claim:
    statement = f"{name}: the best step of EF21 is larger than that of EF14, and gets further"
    if not _complete(grids):
        return missing(statement, *METHODS)
    best = {label: min(grid, key=lambda m: tail(grid[m])) for label, grid in grids.items()}
    ends = {label: tail(grid[best[label]]) for label, grid in grids.items()}
    figures = "; ".join(f"{label}: {best[label]}×, ‖∇f‖² {ends[label]:.3g}" for label in METHODS)
    return Claim(statement, best["EF21"] > best["EF14"] and ends["EF21"] < ends["EF14"], figures)
