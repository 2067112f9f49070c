"""A figure as an interactive drawing: plotly's, written into the page (the only folder that imports plotly).

Every panel is a plot of its own, so that panels stack on a phone. Colours are numbers here (`meta`); page.js gives them
the colours of the light or dark theme. A figure whose curves have several x axes gets buttons that switch between them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, singledispatch
from html import escape
from importlib import import_module
from math import log10
from typing import Any

import numpy as np

from errorfeedback.core import Floats
from errorfeedback.plots.figure import COLOURS, DASHES, Axis, Bars, Figure, Heatmap, Lines, drawable

HINT = "pages need plotly: pip install 'errorfeedback[report]'"


@cache
def _plotly(module: str) -> Any:
    try:
        return import_module(f"plotly.{module}")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(HINT) from error


def library() -> str:
    """plotly.js itself."""
    source: str = _plotly("offline").get_plotlyjs()
    return source.replace("</script", "<\\/script")


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure as a block of a page."""

    figure: Figure

    def html(self) -> str:
        f = self.figure
        plots = "".join(_plot(panel, f.axes) for panel in f.panels)
        caption = f"<figcaption>{escape(f.caption)}</figcaption>" if f.caption else ""
        return (
            f'<figure class="drawing" id="figure-{escape(f.name)}">{_switch(f.axes)}'
            f'<div class="panels" style="--columns:{f.columns}">{plots}</div>{caption}</figure>'
        )


def _switch(axes: Mapping[str, Axis]) -> str:
    if len(axes) < 2:
        return ""
    pressed = ["true"] + ["false"] * (len(axes) - 1)
    buttons = "".join(
        f'<button type="button" data-axis="{escape(name)}" aria-pressed="{state}">{escape(axis.label)}</button>'
        for state, (name, axis) in zip(pressed, axes.items(), strict=True)
    )
    return f'<div class="switch" role="group" aria-label="horizontal axis">{buttons}</div>'


def _plot(panel: Lines | Bars | Heatmap, axes: Mapping[str, Axis]) -> str:
    figure, more = _draw(panel, axes)
    spec = {"figure": json.loads(figure.to_json()), **more}
    text = json.dumps(spec, separators=(",", ":")).replace("</", "<\\/")
    title = f"<h3>{escape(panel.title)}</h3>" if panel.title else ""
    return f'<div class="panel">{title}<div class="plot"></div><script type="application/json">{text}</script></div>'


@singledispatch
def _draw(panel: Any, axes: Mapping[str, Axis]) -> tuple[Any, dict[str, Any]]:
    raise TypeError(f"no drawing for {type(panel).__name__}; a panel is Lines, Bars or Heatmap")


@_draw.register
def _(panel: Lines, axes: Mapping[str, Axis]) -> tuple[Any, dict[str, Any]]:
    go = _plotly("graph_objects")
    first = next(iter(axes))
    traces = [
        go.Scatter(
            x=_list(curve.x[first], axes[first]),
            y=_list(curve.y, panel.y),
            name=curve.label,
            mode="lines",
            line={"dash": DASHES[curve.dash], "width": 2},
            meta={"colour": curve.colour % len(COLOURS)},
            hovertemplate="%{y:.3~g} at %{x:,.4~s}<extra>%{fullData.name}</extra>",
        )
        for curve in panel.curves
    ]
    layout = _layout(axes[first], panel.y) | _marks(panel) | {"showlegend": panel.legend}
    switch = {
        name: {"label": axis.label, "type": _scale(axis), "x": [_list(curve.x[name], axis) for curve in panel.curves]}
        for name, axis in axes.items()
    }
    return go.Figure(traces, layout=layout), {"switch": switch}


def _marks(panel: Lines) -> dict[str, Any]:
    """Horizontal lines with their labels; plotly wants the logarithm for a label, and the value for a line."""
    side = {"xref": "paper", "yref": "y"}
    lines = [
        {"type": "line", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": {"dash": "dot", "width": 1}, **side}
        for y in panel.marks.values()
    ]
    labels = [
        {"text": label, "x": 1, "xanchor": "right", "yanchor": "bottom", "showarrow": False, **side}
        | {"y": log10(y) if panel.y.log else y}
        for label, y in panel.marks.items()
    ]
    return {"shapes": lines, "annotations": labels}


@_draw.register
def _(panel: Bars, axes: Mapping[str, Axis]) -> tuple[Any, dict[str, Any]]:
    go = _plotly("graph_objects")
    traces = [
        go.Bar(x=list(panel.labels), y=list(values), name=name, meta={"colour": k % len(COLOURS)})
        for k, (name, values) in enumerate(panel.series.items())
    ]
    layout = _layout(Axis(""), panel.y)
    layout["xaxis"]["type"] = "category"
    return go.Figure(traces, layout=layout), {}


@_draw.register
def _(panel: Heatmap, axes: Mapping[str, Axis]) -> tuple[Any, dict[str, Any]]:
    go = _plotly("graph_objects")
    pattern = panel.values.dtype == bool
    trace = go.Heatmap(
        z=panel.values.astype(np.uint8 if pattern else np.float64),
        showscale=not pattern,
        colorbar={"title": {"text": panel.legend}},
        meta={"pattern": pattern},
        hovertemplate=f"{panel.rows} %{{y}}, {panel.columns} %{{x}}: %{{z:.3~g}}<extra></extra>",
    )
    layout = _layout(Axis(panel.columns), Axis(panel.rows))
    layout["yaxis"]["autorange"] = "reversed"
    return go.Figure([trace], layout=layout), {}


def _layout(x: Axis, y: Axis) -> dict[str, Any]:
    return {
        "template": "none",
        "xaxis": {"title": {"text": x.label}, "type": _scale(x), "exponentformat": "power", "zeroline": False},
        "yaxis": {"title": {"text": y.label}, "type": _scale(y), "exponentformat": "power", "zeroline": False},
        "legend": {"orientation": "h", "y": -0.24, "yanchor": "top", "x": 0, "xanchor": "left"},
        "margin": {"l": 64, "r": 12, "t": 12, "b": 48},
        "hovermode": "closest",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    }


def _scale(axis: Axis) -> str:
    return "log" if axis.log else "linear"


def _list(values: Floats, axis: Axis) -> list[float | None]:
    """For JSON: gaps are null."""
    return [None if np.isnan(value) else float(value) for value in drawable(values, axis)]
