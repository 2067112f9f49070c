"""What a figure shows, without saying who draws it: matplotlib for print (`plots.draw`), plotly for a page (`report`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from errorfeedback.core import Floats

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A7A7A")
"""Okabe and Ito's palette, without its black and yellow, which vanish on a dark and on a white page."""
DASHES = ("solid", "dash", "dot", "dashdot")


@dataclass(frozen=True)
class Axis:
    """A quantity: its label and whether its scale is logarithmic."""

    label: str
    log: bool = False


@dataclass(frozen=True, eq=False)
class Curve:
    """y over one or several x (`x["rounds"]`, `x["bits"]`, ...): a page lets the reader switch between them."""

    label: str
    x: Mapping[str, Floats]
    y: Floats
    colour: int = 0
    """Which of COLOURS; the same method has the same colour in every panel."""
    dash: int = 0
    """Which of DASHES."""
    band: tuple[Floats, Floats] | None = None
    """From where to where other runs of the same went, as far as all of them went; y may go on."""
    hidden: bool = False
    """A page draws it when the reader asks for it, print never."""


@dataclass(frozen=True, eq=False)
class Lines:
    """Curves in one pair of axes."""

    title: str
    curves: Sequence[Curve]
    y: Axis
    legend: bool = True
    """False: a neighbour with the same curves has it."""


@dataclass(frozen=True, eq=False)
class Bars:
    """Groups of bars: series[name][k] stands over labels[k]."""

    title: str
    labels: Sequence[str]
    series: Mapping[str, Sequence[float]]
    y: Axis


@dataclass(frozen=True, eq=False)
class Heatmap:
    """A matrix: rows downwards, columns to the right. A Boolean one is a pattern (filled or empty)."""

    title: str
    values: np.ndarray
    rows: str
    columns: str
    legend: str = ""
    """What a value means."""


Panel: TypeAlias = Lines | Bars | Heatmap


@dataclass(frozen=True, eq=False)
class Figure:
    """Panels side by side, `columns` in a row; `axes` are the x axes that its curves can be shown over, the first one first.

    >>> curve = Curve("EF21", {"rounds": np.arange(3.0)}, np.array([1.0, 0.1, 0.01]))
    >>> Figure("speed", [Lines("", [curve], Axis("error", log=True))], {"rounds": Axis("rounds")}).columns
    1
    """

    name: str
    """Also the name of its file."""
    panels: Sequence[Panel]
    axes: Mapping[str, Axis] = field(default_factory=dict)
    columns: int = 0
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.panels:
            raise ValueError(f"figure {self.name!r} has no panel; give it at least one")
        if not self.columns:
            object.__setattr__(self, "columns", min(3, len(self.panels)))
        for curve in (c for panel in self.panels if isinstance(panel, Lines) for c in panel.curves):
            _check(self, curve)


def drawable(values: Floats, axis: Axis) -> Floats:
    """Infinities, NaN and, on a logarithmic axis, zeros leave a gap.

    >>> drawable(np.array([0.0, 1.0, np.inf]), Axis("", log=True))
    array([nan,  1., nan])
    """
    keep = np.isfinite(values) & ((values > 0) | (not axis.log))
    return np.where(keep, values, np.nan)


def _check(figure: Figure, curve: Curve) -> None:
    if not figure.axes:
        raise ValueError(f"figure {figure.name!r} has curves but no x axis; name at least one in `axes`")
    for axis in figure.axes:
        if axis not in curve.x:
            raise ValueError(f"curve {curve.label!r} has no x for the axis {axis!r}; it has {', '.join(curve.x)}")
        if len(curve.x[axis]) != len(curve.y):
            raise ValueError(f"curve {curve.label!r} has {len(curve.y)} values, but {len(curve.x[axis])} places on {axis!r}")
