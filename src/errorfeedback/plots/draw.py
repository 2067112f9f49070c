"""A figure for print: PNG and SVG by matplotlib, colour-blind safe, with dashes that survive a black-and-white printer.

A figure with curves gets a row of panels for each of its first two x axes (rounds, then bits).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure as Canvas

from errorfeedback.plots.figure import COLOURS, DASHES, Axis, Bars, Figure, Heatmap, Lines, Panel

LINES = dict(zip(DASHES, ("-", (0, (5, 2)), (0, (1, 1.4)), (0, (6, 2, 1, 2))), strict=True))
PANEL = (4.3, 3.5)
"""Inches."""
INK, SOFT, GRID = "#1c2024", "#60676f", "#e4e6e9"


def save(figure: Figure, folder: Path) -> list[Path]:
    """Write NAME.png and NAME.svg."""
    canvas = draw(figure)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{figure.name}.{kind}" for kind in ("png", "svg")]
    for path in paths:
        canvas.savefig(path, dpi=160, metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


def draw(figure: Figure) -> Canvas:
    """The figure as matplotlib's."""
    cells = _cells(figure)
    rows = -(-len(cells) // figure.columns)
    canvas = Canvas(figsize=(PANEL[0] * figure.columns, PANEL[1] * rows), layout="constrained")
    FigureCanvasAgg(canvas)
    grid = canvas.subplots(rows, figure.columns, squeeze=False)
    for place, (panel, x) in zip(grid.flat, cells, strict=False):
        _draw(panel, place, x)
    for place in grid.flat[len(cells) :]:
        place.remove()
    return canvas


def _cells(figure: Figure) -> list[tuple[Panel, Mapping[str, Axis]]]:
    """Every row of panels over rounds, and below it the same over bits; other panels once."""
    panels = list(figure.panels)
    shown = list(islice(figure.axes.items(), 2))
    cells: list[tuple[Panel, Mapping[str, Axis]]] = []
    for lo in range(0, len(panels), figure.columns):
        row = panels[lo : lo + figure.columns]
        curves = [panel for panel in row if isinstance(panel, Lines)]
        if len(curves) == len(row) and len(row) == figure.columns and len(panels) == len(row):
            cells += [(panel, {name: axis}) for name, axis in shown for panel in row]
        else:
            cells += [(panel, dict(shown[:1])) for panel in row]
    return cells


@singledispatch
def _draw(panel: Any, place: Axes, x: Mapping[str, Axis]) -> None:
    raise TypeError(f"no drawing for {type(panel).__name__}; a panel is Lines, Bars or Heatmap")


@_draw.register
def _(panel: Lines, place: Axes, x: Mapping[str, Axis]) -> None:
    ((name, axis),) = x.items()
    for curve in panel.curves:
        y = curve.y if not panel.y.log else np.where(curve.y > 0, curve.y, np.nan)
        y = np.where(np.isfinite(y), y, np.nan)
        colour = COLOURS[curve.colour % len(COLOURS)]
        place.plot(curve.x[name], y, color=colour, linestyle=LINES[DASHES[curve.dash]], linewidth=1.8, label=curve.label)
    for label, height in panel.marks.items():
        place.axhline(height, color=SOFT, linewidth=0.8, linestyle=":")
        place.annotate(
            label, (1, height), xycoords=("axes fraction", "data"), ha="right", va="bottom", fontsize=7, color=SOFT
        )
    _style(place, panel.title, axis, panel.y)
    place.legend(fontsize=7.5, frameon=True, framealpha=0.85, edgecolor="none", loc="best", handlelength=2.6)


@_draw.register
def _(panel: Bars, place: Axes, x: Mapping[str, Axis]) -> None:
    width = 0.8 / len(panel.series)
    at = np.arange(len(panel.labels))
    for k, (name, values) in enumerate(panel.series.items()):
        place.bar(at + (k + 0.5) * width - 0.4, values, width * 0.94, label=name, color=COLOURS[k % len(COLOURS)])
    _style(place, panel.title, Axis(""), panel.y)
    place.set_xticks(at, panel.labels)
    place.legend(fontsize=7.5, frameon=True, framealpha=0.85, edgecolor="none")


@_draw.register
def _(panel: Heatmap, place: Axes, x: Mapping[str, Axis]) -> None:
    pattern = panel.values.dtype == bool
    colours = ListedColormap(["#ffffff", COLOURS[0]]) if pattern else "cividis"
    image = place.imshow(panel.values, aspect="auto", interpolation="nearest", cmap=colours)
    if not pattern:
        place.figure.colorbar(image, ax=place, label=panel.legend)
    _style(place, panel.title, Axis(panel.columns), Axis(panel.rows))
    place.grid(False)


def _style(place: Axes, title: str, x: Axis, y: Axis) -> None:
    place.set_title(title, fontsize=10, color=INK)
    place.set_xlabel(x.label, fontsize=9, color=INK)
    place.set_ylabel(y.label, fontsize=9, color=INK)
    place.set_xscale("log" if x.log else "linear")
    place.set_yscale("log" if y.log else "linear")
    place.grid(True, color=GRID, linewidth=0.6)
    place.set_axisbelow(True)
    place.tick_params(labelsize=8, colors=SOFT)
    for side in ("top", "right"):
        place.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        place.spines[side].set_color(SOFT)
