"""Runs over bytes and rounds as a figure, and training as one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from errorfeedback.core import Floats
from errorfeedback.plots.figure import Axis, Curve, Figure, Lines
from errorfeedback.records.history import History
from errorfeedback.report.page import Cell, Code, Drawing, Page, Section, Table

AXES = {"bytes": Axis("bytes up per client"), "rounds": Axis("rounds"), "seconds": Axis("seconds")}


def places(history: History, n: int) -> dict[str, Floats]:
    """Where the recorded rounds stand on every axis."""
    return {"bytes": history["uplink_bits"] / 8 / n, "rounds": history["round"].astype(float), "seconds": history["seconds"]}


def losses(name: str, runs: Mapping[str, History], n: int, low: float = 0.0) -> Figure:
    """The loss of every run (above `low`) over bytes, rounds and seconds."""
    curves = [Curve(label, places(h, n), h["f"] - low, k, k // 7) for k, (label, h) in enumerate(runs.items())]
    label = "loss" if not low else f"loss - {low:.6g}"
    return Figure(name, [Lines("", curves, Axis(label, log=True))], AXES, columns=1)


def training_page(
    title: str,
    facts: Sequence[tuple[str, Cell]],
    history: History,
    n: int,
    heaviest: Sequence[tuple[str, Any]],
    command: str,
) -> Page:
    """The run, its step sizes and the largest weights."""
    steps = Figure(
        "steps", [Lines("", [Curve("gamma", places(history, n), history["gamma"])], Axis("step size", log=True))], AXES
    )
    return Page(
        title,
        "Trained across clients by EF21 with TopK and the automatic step.",
        [
            Section("Result", [Table(["", ""], [list(fact) for fact in facts])]),
            Section("Loss", [Drawing(losses("loss", {"EF21, automatic step": history}, n))]),
            Section("Step size", [Drawing(steps)]),
            Section("Model", [Table(["feature", "weight"], [list(row) for row in heaviest], "The largest weights")]),
            Section("Again", [Code(command)]),
        ],
    )


def comparison_page(title: str, head: Sequence[str], rows: Sequence[Sequence[Cell]], figure: Figure, command: str) -> Page:
    """Loss against bytes, and what every method needs for every target."""
    return Page(
        title,
        "The same data, the same start, the same budget; everything on the wire is counted.",
        [
            Section("Loss", [Drawing(figure)]),
            Section("Targets", [Table(head, rows, "Bytes up per client / rounds until the loss is there")]),
            Section("Again", [Code(command)]),
        ],
    )
