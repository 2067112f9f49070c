"""A figure as an interactive drawing: plotly's, written into the page (the only folder that imports plotly).

Every panel is a plot of its own, so that panels stack on a phone. Colours are numbers here (`meta`); page.js gives them
the colours of the light or dark theme. A figure whose curves have several x axes gets buttons that switch between them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from html import escape
from math import log10
from typing import Any

import numpy as np

from errorfeedback.core import Floats
from errorfeedback.extras import import_extra
from errorfeedback.plots.figure import COLOURS, DASHES, Axis, Bars, Curve, Figure, Heatmap, Lines, drawable


def _plotly(module: str) -> Any:
    return import_extra(f"plotly.{module}", "a page")


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
    named = [trace for trace in figure.data if trace.showlegend is not False]
    shown = len(named) if figure.layout.showlegend is not False else 0
    plot = f'<div class="plot" style="--legend:{shown}"></div>'
    return f'<div class="panel">{title}{plot}<script type="application/json">{text}</script></div>'


@singledispatch
def _draw(panel: Any, axes: Mapping[str, Axis]) -> tuple[Any, dict[str, Any]]:
    raise TypeError(f"no drawing for {type(panel).__name__}; a panel is Lines, Bars or Heatmap")


@_draw.register
def _(panel: Lines, axes: Mapping[str, Axis]) -> tuple[Any, dict[str, Any]]:
    go = _plotly("graph_objects")
    first = next(iter(axes))
    traces = [trace for curve in panel.curves for trace in _traces(curve, first, axes[first], panel.y)]
    x = _axis(axes[first], [curve.x[first] for curve in panel.curves])
    y = _axis(panel.y, [curve.y for curve in panel.curves])
    layout = _layout(x, y) | {"showlegend": panel.legend}
    switch = {
        name: {
            "axis": _axis(axis, [curve.x[name] for curve in panel.curves]),
            "x": [x for curve in panel.curves for x in _places(curve, name, axis)],
        }
        for name, axis in axes.items()
    }
    return go.Figure(traces, layout=layout), {"switch": switch}


def _traces(curve: Curve, name: str, axis: Axis, y: Axis) -> list[Any]:
    """The band, where there is one, below the curve: both come and go with one entry of the legend."""
    go = _plotly("graph_objects")
    shared: dict[str, Any] = {
        "meta": {"colour": curve.colour % len(COLOURS)},
        "legendgroup": curve.label,
        "name": curve.label,
    }
    shared["visible"] = "legendonly" if curve.hidden else True
    line = go.Scatter(
        x=_list(curve.x[name], axis),
        y=_list(curve.y, y),
        mode="lines",
        line={"dash": DASHES[curve.dash], "width": 2},
        hovertemplate="%{y:.3~g} at %{x:,.4~s}<extra>%{fullData.name}</extra>",
        **shared,
    )
    if curve.band is None:
        return [line]
    low, high = curve.band
    ends = _list(np.concatenate([low, high[::-1]]), y)
    band = {"mode": "none", "fill": "toself", "hoverinfo": "skip", "showlegend": False}
    return [go.Scatter(x=_places(curve, name, axis)[0], y=ends, **band, **shared), line]


def _places(curve: Curve, name: str, axis: Axis) -> list[list[float | None]]:
    """The x of every trace of a curve; a band goes there and back."""
    x = curve.x[name]
    if curve.band is None:
        return [_list(x, axis)]
    common = x[: len(curve.band[0])]
    return [_list(np.concatenate([common, common[::-1]]), axis), _list(x, axis)]


@_draw.register
def _(panel: Bars, axes: Mapping[str, Axis]) -> tuple[Any, dict[str, Any]]:
    go = _plotly("graph_objects")
    traces = [
        go.Bar(x=list(panel.labels), y=list(values), name=name, meta={"colour": k % len(COLOURS)})
        for k, (name, values) in enumerate(panel.series.items())
    ]
    heights = [np.asarray(values, dtype=np.float64) for values in panel.series.values()]
    layout = _layout({"type": "category"}, _axis(panel.y, heights))
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
    layout = _layout(_axis(Axis(panel.columns)), _axis(Axis(panel.rows)) | {"autorange": "reversed"})
    return go.Figure([trace], layout=layout), {}


def _layout(x: dict[str, Any], y: dict[str, Any]) -> dict[str, Any]:
    return {
        "template": "none",
        "xaxis": x,
        "yaxis": y,
        "legend": {"orientation": "h", "y": 0, "yref": "container", "yanchor": "bottom", "x": 0, "tracegroupgap": 0},
        "margin": {"l": 64, "r": 12, "t": 12, "b": 48},
        "hovermode": "closest",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    }


def _axis(axis: Axis, values: Sequence[Floats] = ()) -> dict[str, Any]:
    """plotly's description of an axis; a logarithmic one labels powers of ten, and 2 and 5 where there are few of them."""
    kind = "log" if axis.log else "linear"
    layout = {"title": {"text": axis.label, "standoff": 10}, "type": kind, "exponentformat": "power", "zeroline": False}
    shown = np.concatenate([drawable(v, axis) for v in values]) if axis.log and values else np.empty(0)
    shown = shown[np.isfinite(shown)]
    decades = log10(shown.max()) - log10(shown.min()) if len(shown) else 0.0
    if decades <= 1:
        return layout
    return layout | {"dtick": max(1, round(decades / 6)) if decades > 2 else "D2"}


def _list(values: Floats, axis: Axis) -> list[float | None]:
    """For JSON: gaps are null."""
    return [None if np.isnan(value) else float(value) for value in drawable(values, axis)]
