"""How curves are compared, drawn and tabulated; shared by the experiments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from errorfeedback.core import Floats, Integers
from errorfeedback.experiments.base import Options
from errorfeedback.experiments.jobs import Record, Run
from errorfeedback.experiments.store import Store
from errorfeedback.plots.figure import Axis, Curve
from errorfeedback.report.page import Cell, Claim, Table

AXES = {
    "rounds": Axis("communication rounds", log=True),
    "bits": Axis("bits sent per client", log=True),
    "authors": Axis("bits per client, as the authors count", log=True),
}
GRADIENT = Axis("‖∇f(x)‖²", log=True)

DEPTH = 1e-10
"""Levels below this share of the start are not compared: rounding takes over."""
ROUNDING = 1e-16
"""Curves are drawn down to this share of their start."""
SMALL = 1.35
"""What the paper itself calls a small factor (figure 4)."""
LARGE = 10.0
POINTS = 400
"""How many points of a curve are drawn."""


@dataclass(frozen=True, eq=False)
class Trace:
    """A stored curve, ready to be compared."""

    label: str
    record: Record

    @property
    def grad2(self) -> Floats:
        return self.record.columns["grad_norm2"]

    @property
    def gammas(self) -> Floats:
        return self.record.columns["gamma"]

    @property
    def gamma(self) -> float:
        """The step size; of a rule that moves, the median over the recorded rounds."""
        return float(np.median(self.gammas))

    @property
    def finished(self) -> bool:
        """All rounds were run and f stayed finite."""
        return bool(self.record.facts["finished"])

    def x(self, axis: str) -> Floats:
        """The place of every recorded round on an axis."""
        n = self.record.facts["n"]
        columns = {"rounds": ("round", 1), "bits": ("uplink_bits", n), "authors": ("authors_bits", n)}
        name, share = columns[axis]
        return self.record.columns[name] / share

    def reach(self, level: float, axis: str = "rounds") -> float:
        """Where the squared gradient norm first is at or below a level; infinity if it never is.

        Between two recorded rounds the norm is taken to fall geometrically.
        """
        there = np.flatnonzero(self.grad2 <= level)
        if not len(there):
            return inf
        k, x = int(there[0]), self.x(axis)
        if k == 0:
            return float(x[0])
        above, below = self.grad2[k - 1], max(self.grad2[k], np.finfo(float).tiny)
        return float(x[k - 1] + (x[k] - x[k - 1]) * np.log(above / level) / np.log(above / below))

    def curve(self, colour: int, dash: int = 0, column: str = "grad_norm2") -> Curve:
        """The curve to draw, down to where rounding takes over; the legend names the rule and its step."""
        steady = np.ptp(self.gammas) == 0
        name = f"{self.label}, γ = {self.gamma:.3g}" if steady else f"{self.label}, median γᵗ = {self.gamma:.3g}"
        done = np.flatnonzero(self.grad2 <= ROUNDING * self.grad2[0])
        keep = thinned(int(done[0]) + 1 if len(done) else len(self.grad2))
        return Curve(name, {axis: self.x(axis)[keep] for axis in AXES}, self.record.columns[column][keep], colour, dash)


def thinned(rows: int) -> Integers:
    """At most POINTS of the rows, denser at the start, as a logarithmic axis shows them; the first and the last are kept.

    >>> thinned(5)
    array([0, 1, 2, 3, 4])
    """
    if rows <= POINTS:
        return np.arange(rows)
    return np.unique(np.concatenate([[0], np.geomspace(1, rows - 1, POINTS).round().astype(np.int64)]))


def tail(trace: Trace) -> float:
    """The median squared gradient norm over the last tenth of the rounds; infinity for a run that left the numbers."""
    last = trace.grad2[-max(1, len(trace.grad2) // 10) :]
    return float(np.median(last)) if trace.finished and np.isfinite(last).all() else inf


def traces(store: Store, runs: Sequence[Run]) -> dict[str, Trace]:
    """The stored ones among the runs, by label."""
    records = {run.label: store.load(run) for run in runs}
    return {label: Trace(label, record) for label, record in records.items() if record is not None}


def axes(options: Options) -> dict[str, Axis]:
    """Rounds first; then bits, counted as the user asked for."""
    order = ("rounds", "authors", "bits") if options.authors else ("rounds", "bits", "authors")
    return {name: AXES[name] for name in order}


def common_level(*curves: Trace) -> float:
    """The lowest squared gradient norm that all of them reach, not below DEPTH of the start."""
    lowest = max(float(np.nanmin(curve.grad2)) for curve in curves)
    return max(lowest, DEPTH * float(curves[0].grad2[0]))


def ahead(fast: Trace, slow: Trace, axis: str) -> float:
    """How many times further `slow` must go on an axis to get where both get."""
    level = common_level(fast, slow)
    return slow.reach(level, axis) / max(fast.reach(level, axis), 1.0)


def times(ratio: float) -> str:
    """A ratio in words.

    >>> times(1.7432), times(3000.0)
    ('1.74 times', '3,000 times')
    """
    return f"{ratio:,.0f} times" if ratio >= 100 else f"{ratio:.3g} times"


def missing(statement: str, *labels: str) -> Claim:
    """A claim whose curves are not all there."""
    return Claim(statement, None, f"not stored: {', '.join(labels)}")


def step_table(rows: Sequence[tuple[str, Trace]]) -> Table:
    """The curves of a figure in numbers."""
    cells: list[list[Cell]] = [
        [
            where,
            t.label,
            t.gamma,
            int(t.x("rounds")[-1]),
            float(np.nanmin(t.grad2)),
            round(float(t.x("bits")[-1])),
            round(t.record.facts["rounds_per_second"]),
        ]
        for where, t in rows
    ]
    head = ["problem", "curve", "γ", "rounds", "lowest ‖∇f‖²", "bits per client", "rounds/s"]
    return Table(head, cells, "Curves")


def constants_table(rows: Sequence[tuple[str, Record]]) -> Table:
    """The constants of the problems of a figure."""
    names = ("n", "d", "c", "r", "fill", "L", "L_max", "L_tilde", "L_plus")
    cells: list[list[Cell]] = [[where, *(record.facts.get(name) for name in names)] for where, record in rows]
    return Table(["problem", "n", "d", "c", "r", "fill", "L", "max L_i", "L̃", "L₊"], cells, "Constants")
