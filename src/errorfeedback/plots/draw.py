"""A figure for print: PNG, SVG and PDF by matplotlib, colour-blind safe, with dashes that survive a black-and-white printer.

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


@dataclass(frozen=True)
class Style:
    """Where a drawing goes: the files, the size of a panel in inches, and that of its letters in points."""

    kinds: tuple[str, ...]
    panel: tuple[float, float]
    title: float
    label: float
    ticks: float
    legend: float
    line: float
    dots: int


SCREEN = Style(("png", "svg"), (4.3, 3.5), title=10, label=9, ticks=8, legend=7.5, line=1.8, dots=160)
COLUMN = Style(("pdf", "png"), (3.3, 3.1), title=8, label=8, ticks=7, legend=6.5, line=1.2, dots=300)
"""The width of a column of a paper in two columns."""
LINES = dict(zip(DASHES, ("-", (0, (5, 2)), (0, (1, 1.4)), (0, (6, 2, 1, 2))), strict=True))
ROOM = 44
"""Characters of labels that fit under a panel side by side; more are turned."""
TURNED = 0.046
"""Inches that a character of a turned label goes down."""
INK, SOFT, GRID = "#1c2024", "#60676f", "#e4e6e9"


UNDATED = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""The same figure is the same file."""


def save(figure: Figure, folder: Path, style: Style = SCREEN) -> list[Path]:
    """Write NAME.png and NAME.svg, or what the style has."""
    canvas = draw(figure, style)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{figure.name}.{kind}" for kind in style.kinds]
    with rc_context({"svg.hashsalt": figure.name, "pdf.fonttype": 42}):
        canvas.draw_without_rendering()
        canvas.set_layout_engine("none")  # laid out: no need to do it again for each file
        for path in paths:
            canvas.savefig(path, dpi=style.dots, metadata=UNDATED.get(path.suffix))
    return paths


class ShownCanvas(Canvas):
    """Matplotlib's figure, which a notebook shows whether or not it knows of pyplot."""

    def _repr_png_(self) -> bytes:
        picture = BytesIO()
        self.savefig(picture, format="png", dpi=110)
        return picture.getvalue()


def draw(figure: Figure, style: Style = SCREEN) -> Canvas:
    """The figure as matplotlib's."""
    cells = _cells(figure)
    rows = -(-len(cells) // figure.columns)
    width, height = style.panel
    canvas = ShownCanvas(figsize=(width * figure.columns, height * rows), layout="constrained")
    canvas.get_layout_engine().set(h_pad=0.08, w_pad=0.06)  # type: ignore[union-attr, call-arg]
    FigureCanvasAgg(canvas)
    grid = canvas.subplots(rows, figure.columns, squeeze=False)
    for place, cell in zip(grid.flat, cells, strict=False):
        _draw(cell.panel, place, cell.x, cell.legend, style)
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
def _draw(panel: Any, place: Axes, x: Mapping[str, Axis], legend: bool, style: Style) -> None:
    raise TypeError(f"no drawing for {type(panel).__name__}; a panel is Lines, Bars or Heatmap")


@_draw.register
def _(panel: Lines, place: Axes, x: Mapping[str, Axis], legend: bool, style: Style) -> None:
    ((name, axis),) = x.items()
    for curve in (curve for curve in panel.curves if not curve.hidden):
        x_values, y = drawable(curve.x[name], axis), drawable(curve.y, panel.y)
        colour, dash = COLOURS[curve.colour % len(COLOURS)], LINES[DASHES[curve.dash]]
        place.plot(x_values, y, color=colour, linestyle=dash, linewidth=style.line, label=curve.label)
        if curve.band is not None:
            low, high = (drawable(end, panel.y) for end in curve.band)
            place.fill_between(x_values[: len(low)], low, high, color=colour, alpha=0.2, linewidth=0)
    _style(place, panel.title, axis, panel.y, style)
    if legend and panel.legend:
        _legend(place, 1, style)


@_draw.register
def _(panel: Bars, place: Axes, x: Mapping[str, Axis], legend: bool, style: Style) -> None:
    width = 0.8 / len(panel.series)
    at = np.arange(len(panel.labels))
    for k, (name, values) in enumerate(panel.series.items()):
        place.bar(at + (k + 0.5) * width - 0.4, values, width * 0.94, label=name, color=COLOURS[k % len(COLOURS)])
    _style(place, panel.title, Axis(""), panel.y, style)
    crowded = sum(len(label) + 2 for label in panel.labels) > ROOM
    place.set_xticks(at, panel.labels, rotation=35 if crowded else 0, ha="right" if crowded else "center")
    _legend(place, 2, style, below=max(0.5, 0.2 + TURNED * max(map(len, panel.labels))) if crowded else 0.5)


@_draw.register
def _(panel: Heatmap, place: Axes, x: Mapping[str, Axis], legend: bool, style: Style) -> None:
    pattern = panel.values.dtype == bool
    colours = ListedColormap(["#ffffff", COLOURS[0]]) if pattern else "cividis"
    image = place.imshow(panel.values, aspect="auto", interpolation="nearest", cmap=colours)
    if not pattern:
        place.figure.colorbar(image, ax=place, label=panel.legend)
    _style(place, panel.title, Axis(panel.columns), Axis(panel.rows), style)
    place.grid(False)


def _legend(place: Axes, columns: int, style: Style, below: float = 0.5) -> None:
    """So many inches below the axes, where it hides no curve."""
    place.legend(
        fontsize=style.legend,
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


def _style(place: Axes, title: str, x: Axis, y: Axis, style: Style) -> None:
    place.set_title(title, fontsize=style.title, color=INK)
    place.set_xlabel(x.label, fontsize=style.label, color=INK)
    place.set_ylabel(y.label, fontsize=style.label, color=INK)
    for scale, axis, quantity in ((place.set_xscale, place.xaxis, x), (place.set_yscale, place.yaxis, y)):
        if quantity.log:
            scale("log")
            _ticks(axis)
    place.grid(True, color=GRID, linewidth=0.6)
    place.set_axisbelow(True)
    place.tick_params(labelsize=style.ticks, colors=SOFT)
    for side in ("top", "right"):
        place.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        place.spines[side].set_color(SOFT)
