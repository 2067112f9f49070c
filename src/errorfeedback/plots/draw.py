"""A figure for print: PNG and SVG by matplotlib, colour-blind safe, with dashes that survive a black-and-white printer.

A figure with curves gets a row of panels for each of its first two x axes (rounds, then bits).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator
from matplotlib.transforms import ScaledTranslation

from errorfeedback.plots.figure import COLOURS, DASHES, Axis, Bars, Figure, Heatmap, Lines, Panel, drawable

LINES = dict(zip(DASHES, ("-", (0, (5, 2)), (0, (1, 1.4)), (0, (6, 2, 1, 2))), strict=True))
PANEL = (4.3, 3.5)
"""Inches."""
ROOM = 44
"""Characters of labels that fit under a panel side by side; more are turned."""
TURNED = 0.046
"""Inches that a character of a turned label goes down."""
INK, SOFT, GRID = "#1c2024", "#60676f", "#e4e6e9"


def save(figure: Figure, folder: Path) -> list[Path]:
    """Write NAME.png and NAME.svg."""
    canvas = draw(figure)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{figure.name}.{kind}" for kind in ("png", "svg")]
    with rc_context({"svg.hashsalt": figure.name}):
        canvas.draw_without_rendering()
        canvas.set_layout_engine("none")  # laid out: no need to do it again for each file
        for path in paths:
            canvas.savefig(path, dpi=160, metadata={"Date": None} if path.suffix == ".svg" else None)
    return paths


class ShownCanvas(Canvas):
    """Matplotlib's figure, which a notebook shows whether or not it knows of pyplot."""

    def _repr_png_(self) -> bytes:
        picture = BytesIO()
        self.savefig(picture, format="png", dpi=110)
        return picture.getvalue()


def draw(figure: Figure) -> Canvas:
    """The figure as matplotlib's."""
    cells = _cells(figure)
    rows = -(-len(cells) // figure.columns)
    canvas = ShownCanvas(figsize=(PANEL[0] * figure.columns, PANEL[1] * rows), layout="constrained")
    canvas.get_layout_engine().set(h_pad=0.08, w_pad=0.06)  # type: ignore[union-attr, call-arg]
    FigureCanvasAgg(canvas)
    grid = canvas.subplots(rows, figure.columns, squeeze=False)
    for place, cell in zip(grid.flat, cells, strict=False):
        _draw(cell.panel, place, cell.x, cell.legend)
    for place in grid.flat[len(cells) :]:
        place.remove()
    return canvas


@dataclass(frozen=True, eq=False)
class _Cell:
    """A panel over one x axis."""

    panel: Panel
    x: Mapping[str, Axis]
    legend: bool = True


def _cells(figure: Figure) -> list[_Cell]:
    """Panels that are one row of curves appear twice: over the first x axis, and below over the second with the legend."""
    first, *others = [{name: axis} for name, axis in figure.axes.items()] or [{}]
    one_row = len(figure.panels) == figure.columns and all(isinstance(panel, Lines) for panel in figure.panels)
    if not (one_row and others):
        return [_Cell(panel, first) for panel in figure.panels]
    return [_Cell(panel, first, legend=False) for panel in figure.panels] + [
        _Cell(panel, others[0]) for panel in figure.panels
    ]


@singledispatch
def _draw(panel: Any, place: Axes, x: Mapping[str, Axis], legend: bool) -> None:
    raise TypeError(f"no drawing for {type(panel).__name__}; a panel is Lines, Bars or Heatmap")


@_draw.register
def _(panel: Lines, place: Axes, x: Mapping[str, Axis], legend: bool) -> None:
    ((name, axis),) = x.items()
    for curve in panel.curves:
        x_values, y = drawable(curve.x[name], axis), drawable(curve.y, panel.y)
        colour = COLOURS[curve.colour % len(COLOURS)]
        place.plot(x_values, y, color=colour, linestyle=LINES[DASHES[curve.dash]], linewidth=1.8, label=curve.label)
    _style(place, panel.title, axis, panel.y)
    if legend and panel.legend:
        _legend(place, 1)


@_draw.register
def _(panel: Bars, place: Axes, x: Mapping[str, Axis], legend: bool) -> None:
    width = 0.8 / len(panel.series)
    at = np.arange(len(panel.labels))
    for k, (name, values) in enumerate(panel.series.items()):
        place.bar(at + (k + 0.5) * width - 0.4, values, width * 0.94, label=name, color=COLOURS[k % len(COLOURS)])
    _style(place, panel.title, Axis(""), panel.y)
    crowded = sum(len(label) + 2 for label in panel.labels) > ROOM
    place.set_xticks(at, panel.labels, rotation=35 if crowded else 0, ha="right" if crowded else "center")
    _legend(place, 2, below=max(0.5, 0.2 + TURNED * max(map(len, panel.labels))) if crowded else 0.5)


@_draw.register
def _(panel: Heatmap, place: Axes, x: Mapping[str, Axis], legend: bool) -> None:
    pattern = panel.values.dtype == bool
    colours = ListedColormap(["#ffffff", COLOURS[0]]) if pattern else "cividis"
    image = place.imshow(panel.values, aspect="auto", interpolation="nearest", cmap=colours)
    if not pattern:
        place.figure.colorbar(image, ax=place, label=panel.legend)
    _style(place, panel.title, Axis(panel.columns), Axis(panel.rows))
    place.grid(False)


def _legend(place: Axes, columns: int, below: float = 0.5) -> None:
    """So many inches below the axes, where it hides no curve."""
    place.legend(
        fontsize=7.5,
        frameon=False,
        loc="upper left",
        bbox_to_anchor=(-0.02, 0),
        bbox_transform=place.transAxes + ScaledTranslation(0, -below, place.figure.dpi_scale_trans),
        borderaxespad=0,
        ncols=columns,
        handlelength=2.8,
        labelcolor=INK,
    )


def _ticks(axis: Any) -> None:
    """Powers of ten; on an axis of less than two of them also 2 and 5 between."""
    low, high = axis.get_view_interval()
    narrow = high < 100 * low
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if narrow else (1.0,), numticks=7))
    axis.set_minor_locator(NullLocator())
    if narrow:
        axis.set_major_formatter(FormatStrFormatter("%g"))


def _style(place: Axes, title: str, x: Axis, y: Axis) -> None:
    place.set_title(title, fontsize=10, color=INK)
    place.set_xlabel(x.label, fontsize=9, color=INK)
    place.set_ylabel(y.label, fontsize=9, color=INK)
    for scale, axis, quantity in ((place.set_xscale, place.xaxis, x), (place.set_yscale, place.yaxis, y)):
        if quantity.log:
            scale("log")
            _ticks(axis)
    place.grid(True, color=GRID, linewidth=0.6)
    place.set_axisbelow(True)
    place.tick_params(labelsize=8, colors=SOFT)
    for side in ("top", "right"):
        place.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        place.spines[side].set_color(SOFT)
