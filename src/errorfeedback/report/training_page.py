"""Training as one page: how good the model is, the run over kB, time and rounds, what was sent, the largest weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from errorfeedback.plots.figure import Axis
from errorfeedback.plots.run_curves import RunCurves
from errorfeedback.report.page import Badge, Cell, Code, Drawing, Page, Section, Table, Text, number

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
class TrainingReport:
    """What the page says."""

    title: str
    scores: Table
    facts: Sequence[tuple[str, Cell]]
    warnings: Sequence[str]
    sent: Table
    weights: Table
    command: str


def training_page(report: TrainingReport, curves: RunCurves) -> Page:
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
