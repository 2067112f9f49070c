"""The race in one figure: a panel per data set, total bytes per client to accuracy, us and the peers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from errorfeedback.plots.draw import GRID, INK, SOFT
from errorfeedback.plots.figure import COLOURS
from racing.contest import US
from racing.records import envelope

LOOKS = {
    US: (COLOURS[1], "-", 3.2),
    "L-BFGS": (COLOURS[0], "-", 1.7),
    "CoCoA+": (COLOURS[2], "-", 1.7),
    "FedAvg": (COLOURS[4], (0, (5, 2)), 1.7),
    "Newton": (COLOURS[3], (0, (6, 2, 1, 2)), 1.7),
    "AGD": (COLOURS[6], (0, (1, 1.4)), 1.7),
    "EF21 Top1": (COLOURS[5], (0, (5, 2)), 1.7),
}
"""Colour, dashes, width. Newton-CG is behind L-BFGS and GD behind AGD: they are in the tables."""
SHOWN = ("phishing", "a9a", "mushrooms", "w5a", "rcv1", "news20", "clicks", "reviews")
PANEL, COLUMNS, WORDS = (2.75, 2.5), 4, 0.42
"""Inches, panels beside each other, and the share of a panel that its words are wide."""
MARK, LOWEST = 1e-3, 1e-5
"""The gap that a panel's words are about, and the smallest that is shown."""


def draw(record: dict[str, Any], path: Path, seed: str) -> None:
    """One PNG from what `race.py` writes."""
    data = {name: record["data"][name][seed] for name in SHOWN if name in record["data"]} or {
        name: each[seed] for name, each in record["data"].items()
    }
    columns = min(COLUMNS, len(data))
    rows = -(-len(data) // columns)
    canvas = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows + 0.4), layout="constrained")
    FigureCanvasAgg(canvas)
    grid = canvas.subplots(rows, columns, squeeze=False, sharey=True)
    for place, (name, found) in zip(grid.flat, data.items(), strict=False):
        _panel(place, name, found)
    for place in grid.flat[len(data) :]:
        place.remove()
    canvas.supylabel("relative gap to the optimum", fontsize=9.5, color=INK)
    canvas.supxlabel("sent and received per client", fontsize=9.5, color=INK)
    handles = {line.get_label(): line for place in grid.flat[: len(data)] for line in place.get_lines()}
    shown = [method for method in LOOKS if method in handles]
    canvas.legend(
        [handles[method] for method in shown],
        shown,
        loc="outside upper center",
        ncols=len(shown) if columns > 2 else 3,
        frameon=False,
        fontsize=9.5,
        handlelength=2.2,
        columnspacing=1.5,
        labelcolor=INK,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, dpi=160)


def _panel(place: Axes, name: str, found: dict[str, Any]) -> None:
    curves = {method: _curve(method, found["methods"][method]) for method in LOOKS if method in found["methods"]}
    curves = {method: curve for method, curve in curves.items() if len(curve[0])}
    place.axhline(MARK, color=SOFT, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    for method, (kB, gap) in curves.items():
        colour, dashes, width = LOOKS[method]
        order = 5 if method == US else 3
        place.plot(kB, gap, color=colour, linestyle=dashes, linewidth=width, label=method, zorder=order)
    facts = found["facts"]
    place.set_title(f"{name}\n", fontsize=10, color=INK, fontweight="bold")
    under = f"{facts['clients']:,} clients, {facts['features']:,} features"
    place.text(0.5, 1.03, under, transform=place.transAxes, ha="center", fontsize=8, color=SOFT)
    _words(place, found)
    place.set_xscale("log")
    place.set_yscale("log")
    place.set_ylim(LOWEST, 1.3)
    place.set_xlim(_left(curves), _right(curves))
    place.xaxis.set_major_locator(LogLocator(numticks=5))
    place.xaxis.set_major_formatter(FuncFormatter(lambda kB, _: size(kB)))
    for axis in (place.xaxis, place.yaxis):
        axis.set_minor_locator(NullLocator())
    place.grid(True, color=GRID, linewidth=0.6)
    place.set_axisbelow(True)
    place.tick_params(labelsize=8, colors=SOFT)
    for side in ("top", "right"):
        place.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        place.spines[side].set_color(SOFT)


def _words(place: Axes, found: dict[str, Any]) -> None:
    """What it took us to come to the marked gap, and the best peer."""
    needs = {method: run["needs"].get(f"{MARK:g}", {}).get("kB") for method, run in found["methods"].items()}
    there = {method: kB for method, kB in needs.items() if kB is not None}
    peer = min((method for method in there if method != US), key=lambda method: there[method], default=None)
    if US in there and peer is not None:
        words = f"to $10^{{{round(np.log10(MARK))}}}$\nus {about(there[US])}\n{peer} {about(there[peer])}"
        place.text(0.03, 0.04, words, transform=place.transAxes, fontsize=8, color=INK, linespacing=1.3, zorder=6)


def _curve(method: str, run: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """From where it has moved to where it leaves the panel."""
    if not run["curves"]:
        return np.empty(0), np.empty(0)
    kB, gap = envelope(method, run["curves"])
    moved = (kB > 0) & (gap < 1 - 1e-9)
    kB, gap = kB[moved], gap[moved]
    inside = np.flatnonzero(gap <= LOWEST)
    end = inside[0] + 1 if len(inside) else len(gap)
    return kB[:end], gap[:end]


Curves = dict[str, tuple[np.ndarray, np.ndarray]]


def _left(curves: Curves) -> float:
    """Where all have begun, and our curve ends right of the words."""
    first, right = 0.4 * min(float(kB[0]) for kB, _ in curves.values()), _right(curves)
    end = min((float(kB[-1]) for kB, gap in curves.values() if gap[-1] <= LOWEST), default=right)
    return min(first, float((end / right**WORDS) ** (1 / (1 - WORDS))))


def _right(curves: Curves) -> float:
    """Where the last of those that get to the bottom does; who needs more than 30 times the first leaves the panel."""
    ends = sorted(float(kB[-1]) for kB, gap in curves.values() if gap[-1] <= LOWEST)
    return 1.3 * (min(ends[-1], 30 * ends[0]) if ends else max(float(kB[-1]) for kB, _ in curves.values()))


def size(kB: float) -> str:
    """A power of ten of bytes in words.

    >>> size(0.1), size(10), size(1000), size(1e6)
    ('100 B', '10 kB', '1 MB', '1 GB')
    """
    for unit, many in (("GB", 1e6), ("MB", 1e3), ("kB", 1.0)):
        if kB >= many:
            return f"{kB / many:g} {unit}"
    return f"{1e3 * kB:g} B"


def about(kB: float) -> str:
    """A number of bytes with two or three digits.

    >>> about(2.417), about(31.24), about(1530.0)
    ('2.4 kB', '31 kB', '1.5 MB')
    """
    unit, number = ("MB", kB / 1e3) if kB >= 1e3 else ("kB", kB)
    return f"{number:.1f} {unit}" if number < 10 else f"{number:.0f} {unit}"
