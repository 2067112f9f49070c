"""Runs over bytes, hours on a network and rounds as a figure; training as one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from errorfeedback.core import Floats
from errorfeedback.plots.figure import Axis, Curve, Figure, Lines
from errorfeedback.records.history import History
from errorfeedback.report.page import Cell, Code, Drawing, Page, Section, Table, number

AXES = {"bytes": Axis("bytes up per client"), "rounds": Axis("rounds"), "seconds": Axis("seconds of computing")}
HOURS = Axis("hours on the network")


@dataclass(frozen=True, eq=False)
class Traces:
    """Runs by label, of n clients, and the seconds that their bits take on a network, where one is given."""

    runs: Mapping[str, History]
    n: int
    network: str = ""
    wire: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def axes(self) -> dict[str, Axis]:
        """Bytes first, then hours where they are known."""
        first, *others = AXES.items()
        return dict([first, *([("hours", HOURS)] if self.wire else []), *others])

    def places(self, label: str) -> dict[str, Floats]:
        """Where the recorded rounds of a run stand on every axis."""
        h = self.runs[label]
        found = {"bytes": h["uplink_bits"] / 8 / self.n, "rounds": h["round"].astype(float), "seconds": h["seconds"]}
        return found | ({"hours": self.wire[label] / 3600} if self.wire else {})

    def figure(self, name: str, column: str, axis: Axis) -> Figure:
        """A column of every history over all axes."""
        curves = [Curve(label, self.places(label), h[column], k, k // 7) for k, (label, h) in enumerate(self.runs.items())]
        hours = f"Hours on the network: {self.network}; a round lasts as long as its slowest client."
        return Figure(name, [Lines("", curves, axis)], self.axes, columns=1, caption=hours if self.wire else "")


def training_page(
    title: str, facts: Sequence[tuple[str, Cell]], traces: Traces, heaviest: Sequence[tuple[str, Any]], command: str
) -> Page:
    """The run, its step sizes and the largest weights."""
    return Page(
        title,
        "Trained across clients by EF21 with TopK and the automatic step.",
        [
            Section("Result", [Table(["", ""], [[name, _text(value)] for name, value in facts])]),
            Section("Loss", [Drawing(traces.figure("loss", "f", Axis("loss", log=True)))]),
            Section("Step size", [Drawing(traces.figure("steps", "gamma", Axis("step size", log=True)))]),
            Section("Model", [Table(["feature", "weight"], [list(row) for row in heaviest], "The largest weights")]),
            Section("Again", [Code(command)]),
        ],
    )


def _text(value: Cell) -> Cell:
    return number(value) if isinstance(value, (int, float)) else value
