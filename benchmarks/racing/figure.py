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
    US: (COLOURS[1], "-", 3.0),
    "L-BFGS": (COLOURS[0], "-", 1.6),
    "CoCoA+": (COLOURS[2], "-", 1.6),
    "FedAvg": (COLOURS[4], (0, (5, 2)), 1.6),
    "Newton": (COLOURS[3], (0, (6, 2, 1, 2)), 1.6),
    "Newton-CG": (COLOURS[5], (0, (5, 2)), 1.6),
    "AGD": (COLOURS[6], (0, (1, 1.4)), 1.6),
    "GD": (COLOURS[6], (0, (5, 2)), 1.2),
    "EF21 Top1": ("#9c6b30", (0, (1, 1.4)), 1.8),
}
"""Colour, dashes, width."""
PANEL, COLUMNS = (3.5, 2.75), 3
LOWEST = 1e-5


def draw(record: dict[str, Any], path: Path, seed: str) -> None:
    """One PNG from what `race.py` writes."""
    data = record["data"]
    rows = -(-len(data) // COLUMNS)
    columns = min(COLUMNS, len(data))
    canvas = Figure(figsize=(PANEL[0] * columns, PANEL[1] * rows + 0.7), layout="constrained")
    FigureCanvasAgg(canvas)
    grid = canvas.subplots(rows, columns, squeeze=False, sharey=True)
    for k, (place, (name, found)) in enumerate(zip(grid.flat, data.items(), strict=False)):
        _panel(place, name, found[seed], first=k % columns == 0, last=k + columns >= len(data))
    for place in grid.flat[len(data) :]:
        place.remove()
    handles = {line.get_label(): line for place in grid.flat[: len(data)] for line in place.get_lines()}
    shown = [method for method in LOOKS if method in handles]
    canvas.legend(
        [handles[method] for method in shown],
        shown,
        loc="outside upper center",
        ncols=len(shown) if columns == COLUMNS else 3,
        frameon=False,
        fontsize=9,
        handlelength=2.4,
        columnspacing=1.4,
        labelcolor=INK,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas.savefig(path, dpi=150)


def _panel(place: Axes, name: str, found: dict[str, Any], *, first: bool, last: bool) -> None:
    for method, run in _raced(found):
        colour, dashes, width = LOOKS[method]
        kB, gap = envelope(method, run["curves"])
        inside = np.flatnonzero(gap <= LOWEST)
        end = inside[0] + 1 if len(inside) else len(gap)
        place.plot(
            kB[:end],
            gap[:end],
            color=colour,
            linestyle=dashes,
            linewidth=width,
            label=method,
            zorder=5 if method == US else 3,
            solid_capstyle="round",
        )
    facts = found["facts"]
    place.set_title(f"{name}  ({facts['clients']:,} clients, {facts['features']:,} features)", fontsize=9.5, color=INK)
    place.set_xscale("log")
    place.set_yscale("log")
    place.set_ylim(LOWEST * 0.8, 1.2)
    place.set_xlim(left=_left(found))
    place.xaxis.set_major_locator(LogLocator(numticks=8))
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
    if first:
        place.set_ylabel("relative gap to the optimum", fontsize=9, color=INK)
    if last:
        place.set_xlabel("sent and received per client", fontsize=9, color=INK)


def _raced(found: dict[str, Any]) -> list[tuple[str, Any]]:
    """Methods with a curve."""
    return [(method, run) for method, run in found["methods"].items() if run["curves"]]


def _left(found: dict[str, Any]) -> float:
    """Where the first of the curves begins, after the start itself."""
    starts = [envelope(method, run["curves"])[0] for method, run in _raced(found)]
    return 0.7 * min(float(kB[kB > 0].min()) for kB in starts)


def size(kB: float) -> str:
    """A number of bytes in words.

    >>> size(0.1), size(10), size(1000), size(1e6)
    ('100 B', '10 kB', '1 MB', '1 GB')
    """
    for unit, many in (("GB", 1e6), ("MB", 1e3), ("kB", 1.0)):
        if kB >= many:
            return f"{kB / many:g} {unit}"
    return f"{1e3 * kB:g} B"
