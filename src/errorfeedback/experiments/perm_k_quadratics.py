"""MARINA with PermK against RandK on quadratics (Szlendak, Tyurin, Richtarik 2022, their experiments on quadratics).

Both send K = d/n numbers and everything with probability p = 1/n. Steps: that of their Theorem 4 with exact constants,
gamma = 1/(L + sqrt((n - 1) ((A - B) L_plus^2 + B L_pm^2))), A = B = 1 for PermK and A = (n - 1)/n, B = 0 for RandK; and the
best of its multiples 2^k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt

from errorfeedback import api as ef
from errorfeedback.experiments.base import Experiment, Findings, Options
from errorfeedback.experiments.curves import GRADIENT, SMALL, Trace, ahead, axes, missing, step_table, tail, traces
from errorfeedback.experiments.jobs import Job, Run
from errorfeedback.experiments.quadratics import QuadraticTask
from errorfeedback.experiments.store import Store
from errorfeedback.methods.base import Method
from errorfeedback.plots.figure import Figure, Lines
from errorfeedback.report.page import Cell, Claim, Table

NOISES = (0.0, 0.05, 0.8, 6.4)
"""s, from clients that are all the same on."""
MULTIPLES = (1, 2, 4, 8)
PERMK, RANDK = "MARINA + PermK", "MARINA + RandK"
STYLE = {PERMK: (1, 0), RANDK: (0, 1)}
"""Colour and dash."""
ROUNDS = (10_000, 500)
"""Full and quick."""
MUCH = 2.0

Pair = Mapping[str, Trace]


class PermKQuadratics(Experiment):
    name = "permk-quadratics"
    title = "PermK against RandK where clients are alike, and where they are not"
    source = "Szlendak, Tyurin, Richtárik 2022"
    says = (
        "MARINA with PermK takes much larger steps than with RandK where the clients' Hessians vary little (small L±), and "
        "converges faster there; the gain falls as they vary more."
    )
    differs = (
        "n = 10 and d = 1000 alone (they also had more clients); four noise scales; bits are whole frames with the first "
        "upload; thresholds are ours."
    )

    def jobs(self, options: Options) -> Sequence[Job]:
        return [run for noise in NOISES for grid in _runs(noise, options).values() for run in grid.values()]

    def findings(self, options: Options, store: Store) -> Findings:
        theory = {noise: _by_theory(noise, options, store) for noise in NOISES}
        tuned = {noise: _tuned(noise, options, store) for noise in NOISES}
        claims = [faster_where_alike(theory), gain_falls(theory), faster_where_alike(tuned, "the best of its multiples")]
        there = {noise: pair for noise, pair in theory.items() if pair}
        if not there:
            return Findings([], claims)
        panels = [
            Lines(f"s = {noise:g}", [pair[name].curve(*STYLE[name]) for name in STYLE if name in pair], GRADIENT)
            for noise, pair in there.items()
        ]
        caption = "f_i(x) = x'A_i x/2 − b_i'x with n = 10, d = 1000 and noise of the scale s; the steps of the theorem."
        figures = [Figure(self.name, panels, axes(options), columns=2, caption=caption)]
        rows = [(f"s = {noise:g}", trace) for noise, pair in there.items() for trace in pair.values()]
        return Findings(figures, claims, [_constants(options), step_table(rows)])


def _runs(noise: float, options: Options) -> dict[str, dict[int, Run]]:
    """A run for every multiple of the theorem's step."""
    task, rounds = QuadraticTask(noise, options.seed), options.horizon(*ROUNDS)
    methods: dict[str, Method] = {PERMK: ef.MARINA(ef.PermK()), RANDK: ef.MARINA(ef.RandK(task.d // task.n))}
    gammas = steps(task)
    return {
        name: {
            m: Run(task, f"{name}, {m}×", method, ef.Constant(m * gammas[name]), rounds, options.seed, options.points)
            for m in MULTIPLES
        }
        for name, method in methods.items()
    }


def steps(task: QuadraticTask) -> dict[str, float]:
    """Theorem 4's, for p = 1/n."""
    k, n = task.constants(), task.n
    variance = {PERMK: k.L_pm**2, RANDK: (n - 1) / n * k.L_plus**2}
    return {name: 1 / (k.L + sqrt((n - 1) * v)) for name, v in variance.items()}


def _by_theory(noise: float, options: Options, store: Store) -> Pair:
    loaded = {name: traces(store, [grid[1]]) for name, grid in _runs(noise, options).items()}
    return {name: Trace(name, next(iter(curves.values())).record) for name, curves in loaded.items() if curves}


def _tuned(noise: float, options: Options, store: Store) -> Pair:
    """The best multiple of each, where all are stored."""
    loaded = {name: traces(store, list(grid.values())) for name, grid in _runs(noise, options).items()}
    whole = {name: curves for name, curves in loaded.items() if len(curves) == len(MULTIPLES)}
    return {name: Trace(name, min(curves.values(), key=tail).record) for name, curves in whole.items()}


def _gains(pairs: Mapping[float, Pair]) -> dict[float, float] | None:
    """How many times the bits RandK needs to the gradient that both reach."""
    if any(set(pair) != set(STYLE) for pair in pairs.values()):
        return None
    return {noise: ahead(pair[PERMK], pair[RANDK], "bits") for noise, pair in pairs.items()}


def _figures(gains: Mapping[float, float]) -> str:
    return "; ".join(f"s = {noise:g}: RandK needs {gain:.3g} times the bits" for noise, gain in gains.items())


def faster_where_alike(pairs: Mapping[float, Pair], step: str = "the theorem's step") -> Claim:
    statement = f"Where clients are alike (s = 0 and 0.05), PermK is much faster than RandK with {step}"
    gains = _gains(pairs)
    if gains is None:
        return missing(statement, *STYLE)
    return Claim(statement, min(gains[0.0], gains[0.05]) >= MUCH, f"{_figures(gains)} (much: at least {MUCH:g} times)")


def gain_falls(pairs: Mapping[float, Pair]) -> Claim:
    statement = "The gain of PermK falls as clients differ more, and is small at s = 6.4"
    gains = _gains(pairs)
    if gains is None:
        return missing(statement, *STYLE)
    falls = gains[0.0] >= gains[0.8] >= gains[6.4]
    return Claim(statement, falls and gains[6.4] <= SMALL, f"{_figures(gains)} (small: at most {SMALL:g} times)")


def _constants(options: Options) -> Table:
    rows: list[list[Cell]] = []
    for noise in NOISES:
        task = QuadraticTask(noise, options.seed)
        k, gammas = task.constants(), steps(task)
        rows.append([noise, k.L, k.L_plus, k.L_pm, gammas[PERMK], gammas[RANDK]])
    return Table(["s", "L", "L₊", "L±", "γ of PermK", "γ of RandK"], rows, "Constants and steps, exact")
