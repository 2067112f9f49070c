"""MARINA against DIANA with RandK (Gorbunov, Burlachenko, Li, Richtarik 2021, section 5).

Binary classification with a nonconvex loss (`sigmoid_loss`) on n = 5 clients; RandK with K = 1, 5, 10; both with the step
that a theorem for nonconvex functions gives, and MARINA with p = K/d. Theirs is a claim about steps of theorems; what is
left of it with steps that are tuned is asked too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite

import numpy as np

from errorfeedback import api as ef
from errorfeedback.experiments.base import Experiment, Findings, Options
from errorfeedback.experiments.curves import GRADIENT, Trace, ahead, axes, constants_table, missing, step_table, traces
from errorfeedback.experiments.jobs import Job, Run
from errorfeedback.experiments.multiple import Multiple
from errorfeedback.experiments.sigmoid_loss import SigmoidRegression
from errorfeedback.experiments.store import Store
from errorfeedback.plots.figure import Figure, Lines
from errorfeedback.report.page import Claim
from errorfeedback.stepsizes.base import Fixed

DATA = ("phishing", "mushrooms", "a9a")
CLIENTS = 5
LEVELS = (1, 5, 10)
MARINA, DIANA = "MARINA", "DIANA"
TUNED, MULTIPLES = 5, (1, 8, 64, 512, 4096)
"""The K with which multiples of the steps are run too: what is left of the gain is not the theorems'."""
LEFT = 0.01
"""Of the way from the first loss to the lowest, where multiples are compared."""
ROUNDS = (10_000, 1_000)
"""Full and quick."""


class MarinaAgainstDiana(Experiment):
    name = "marina-diana"
    title = "MARINA against DIANA"
    source = "Gorbunov, Burlachenko, Li, Richtárik 2021"
    says = "MARINA converges faster than DIANA on every data set and with every K, in communication rounds and in bits."
    needs = ", ".join(DATA)
    differs = (
        "w8a is left out; the rows are dealt by our shuffle; DIANA's nonconvex step has our constant (DianaStep), and "
        "MARINA's has our L₊; bits are whole frames, and MARINA's first upload of whole gradients is counted. They ran the "
        "steps of theorems alone; the multiples are ours."
    )

    def jobs(self, options: Options) -> Sequence[Job]:
        return [run for name in DATA for run in _runs(name, options)]

    def findings(self, options: Options, store: Store) -> Findings:
        loaded = {name: traces(store, _runs(name, options)) for name in DATA}
        claims = [marina_is_ahead(name, curves, axis) for name, curves in loaded.items() for axis in ("rounds", "bits")]
        claims += [ahead_with_the_best_step(name, curves) for name, curves in loaded.items()]
        there = {name: curves for name, curves in loaded.items() if curves}
        if not there:
            return Findings([], claims)
        panels = [
            Lines(name, [curves[label].curve(*style) for label, style in STYLE.items() if label in curves], GRADIENT)
            for name, curves in there.items()
        ]
        caption = "n = 5; a colour for every method, a dash for every K; the steps of the theorems for nonconvex functions."
        tables = [
            constants_table([(name, next(iter(curves.values())).record) for name, curves in there.items()]),
            step_table([(name, trace) for name, curves in there.items() for trace in curves.values()]),
        ]
        return Findings([Figure(self.name, panels, axes(options), caption=caption)], claims, tables)


def _label(method: str, k: int, multiple: int = 1) -> str:
    return f"{method}, K = {k}" + f", {multiple}×" * (multiple > 1)


STYLE = {_label(method, k): (colour, dash) for colour, method in ((1, MARINA), (0, DIANA)) for dash, k in enumerate(LEVELS)}
"""Colour and dash."""


def _runs(name: str, options: Options) -> list[Run]:
    problem, rounds = SigmoidRegression(name, CLIENTS, options.seed), options.horizon(*ROUNDS)
    rules: dict[str, Fixed] = {MARINA: ef.MarinaIndependent(), DIANA: ef.DianaStep()}
    made = {(name, k): kind(ef.RandK(k)) for name, kind in ((MARINA, ef.MARINA), (DIANA, ef.DIANA)) for k in LEVELS}
    steps = {(name, k, m): Multiple(rules[name], m) for name, k in made for m in (MULTIPLES if k == TUNED else (1,))}
    return [
        Run(problem, _label(name, k, m), made[name, k], rule, rounds, options.seed, options.points)
        for (name, k, m), rule in steps.items()
    ]


def marina_is_ahead(name: str, curves: Mapping[str, Trace], axis: str) -> Claim:
    statement = f"{name}: MARINA gets to the same gradient before DIANA, in {axis}, with every K"
    wanted = [_label(method, k) for k in LEVELS for method in (MARINA, DIANA)]
    if not set(wanted) <= set(curves):
        return missing(statement, *(label for label in wanted if label not in curves))
    gains = {k: ahead(curves[_label(MARINA, k)], curves[_label(DIANA, k)], axis) for k in LEVELS}
    figures = "; ".join(f"K = {k}: DIANA needs {gain:.3g} times the {axis}" for k, gain in gains.items())
    return Claim(statement, all(gain > 1 for gain in gains.values()), figures)


def ahead_with_the_best_step(name: str, curves: Mapping[str, Trace]) -> Claim:
    """Not a claim of the paper: theirs is about steps of theorems. By the loss, and not by the gradient: this loss is flat
    far out, where a step that is too long leads, and gradients are small there too."""
    statement = (
        f"(Asked, not claimed:) {name}: with the multiple of its step that is best, K = {TUNED}, MARINA needs fewer bits"
    )
    grids = {method: [_label(method, TUNED, m) for m in MULTIPLES] for method in (MARINA, DIANA)}
    absent = [label for labels in grids.values() for label in labels if label not in curves]
    if absent:
        return missing(statement, *absent)
    best = {method: min((curves[label] for label in labels), key=_last_loss) for method, labels in grids.items()}
    least = min(_last_loss(trace) for trace in best.values())
    level = least + LEFT * (float(best[MARINA].record.columns["f"][0]) - least)
    bits = {method: _bits_until(trace, level) for method, trace in best.items()}
    said = "; ".join(f"“{best[method].label}” {_needs(bits[method])}" for method in (MARINA, DIANA))
    return Claim(statement, bits[MARINA] < bits[DIANA], f"until the loss is {level:.4g}, {1 - LEFT:.0%} of the way: {said}")


def _needs(bits: float) -> str:
    return f"needs {bits:.3g} bits" if isfinite(bits) else "does not get there"


def _last_loss(trace: Trace) -> float:
    last = float(trace.record.columns["f"][-1])
    return last if trace.finished and isfinite(last) else inf


def _bits_until(trace: Trace, level: float) -> float:
    """Up per client, until the loss is there; infinity where it never is."""
    there = np.flatnonzero(trace.record.columns["f"] <= level)
    return float(trace.x("bits")[there[0]]) if len(there) else inf
