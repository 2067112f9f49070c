"""Training as one page: how good the model is, the run over kB, time and rounds, what was sent, the largest weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from errorfeedback.core import Floats
from errorfeedback.plots.figure import Axis, Curve, Figure, Lines
from errorfeedback.report.page import Badge, Cell, Code, Drawing, Page, Section, Table, Text, number
from errorfeedback.storage.history import History

UNITS = {"hours": 3600.0, "minutes": 60.0}
TRAINING = (
    "Training: what was minimised, with the penalty; for more than two classes the log loss, or, one against the rest, the "
    "sum of the losses of all classes' models; for counts half of the mean Poisson deviance."
)
HELD_OUT = (
    "Held out: the loss on rows that were not trained with, without a penalty; for more than two classes the log loss, "
    "or the sum of their squared hinges. "
    "It is noisy. The run stops when the training loss has flattened and the lowest held-out loss is as many "
    "rounds old as it took to get there; the model is the last one whose held-out loss is within its noise of the lowest."
)


@dataclass(frozen=True, eq=False)
class TrainingCurves:
    """A run of n clients, and the seconds that its bits take on a network, where one is given."""

    history: History
    n: int
    network: str = ""
    seconds: Floats | None = None

    @property
    def _unit(self) -> tuple[str, float]:
        """What the time on the network is read in."""
        last = 0.0 if self.seconds is None else float(self.seconds[-1])
        return next(((name, size) for name, size in UNITS.items() if last >= 2 * size), ("seconds", 1.0))

    @property
    def axes(self) -> dict[str, Axis]:
        """kB first, then time where it is known."""
        time = {} if self.seconds is None else {"time": Axis(f"{self._unit[0]} on the network")}
        sent = {"up": Axis("kB up per client"), **time, "total": Axis("kB per client, up and down")}
        return {**sent, "rounds": Axis("rounds"), "seconds": Axis("seconds of computing")}

    def places(self) -> dict[str, Floats]:
        """Where the recorded rounds stand on every axis."""
        h = self.history
        up, down = (h[name] / 8e3 / self.n for name in ("uplink_bits", "downlink_bits"))
        coordinates = {"up": up, "total": up + down, "rounds": h["round"].astype(float), "seconds": h["seconds"]}
        return coordinates if self.seconds is None else {**coordinates, "time": self.seconds / self._unit[1]}

    def figure(self, name: str, columns: dict[str, str], axis: Axis) -> Figure:
        """Columns of the history by label, over all axes, where they have values."""
        curves = [self._curve(label, self.history[column], k) for k, (label, column) in enumerate(columns.items())]
        timed = f"Time on the network: {self.network}; a round lasts as long as its slowest client."
        caption = "" if self.seconds is None else timed
        return Figure(name, [Lines("", curves, axis, legend=len(curves) > 1)], self.axes, columns=1, caption=caption)

    def _curve(self, label: str, values: Floats, colour: int) -> Curve:
        known = np.isfinite(values)
        return Curve(label, {name: place[known] for name, place in self.places().items()}, values[known], colour)


@dataclass(frozen=True, eq=False)
class TrainingReport:
    """What the page says."""

    title: str
    scores: Table
    facts: Sequence[tuple[str, Cell]]
    warnings: Sequence[str]
    sent: Table
    weights: Table
    command: str


def training_page(report: TrainingReport, curves: TrainingCurves) -> Page:
    """The page."""
    held = bool(np.isfinite(curves.history["validation"]).any())
    losses = {"training": "f", **({"held out": "validation"} if held else {})}
    facts = Table(["", ""], [[name, _text(value)] for name, value in report.facts])
    loss = Drawing(curves.figure("loss", losses, Axis("loss", log=True)))
    steps = Drawing(curves.figure("steps", {"step size": "gamma"}, Axis("step size", log=True)))
    return Page(
        report.title,
        "Trained across clients by error feedback (EF21). How, and why so, is said below.",
        [
            Section("Result", [*map(_Warning, report.warnings), report.scores, facts]),
            Section("Loss", [loss, Text(TRAINING), *([Text(HELD_OUT)] if held else [])]),
            Section("Step size", [steps]),
            Section("What was sent", [report.sent]),
            Section("Model", [report.weights]),
            Section("Again", [Code(report.command)]),
        ],
    )


@dataclass(frozen=True)
class _Warning:
    """A sentence that must not be missed."""

    text: str

    def html(self) -> str:
        return f'<div class="verdict bad">{Badge("warning", "bad").html()}{Text(self.text).html()}</div>'


def _text(value: Cell) -> Cell:
    return number(value) if isinstance(value, (int, float)) else value
