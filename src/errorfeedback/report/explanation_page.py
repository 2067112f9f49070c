"""A finished run in one page: what the model learned, how good it is, what it cost, and what it would cost elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from errorfeedback.planner.other_links import LinkCost
from errorfeedback.planner.units import human_seconds
from errorfeedback.plots.figure import Axis, Bars, Figure
from errorfeedback.plots.run_curves import RunCurves
from errorfeedback.report.page import Code, Drawing, Page, Section, Table, Text

DRAWN = 15
"""Weights in the picture."""
ELSEWHERE = (
    "The same rounds and bytes on other links. A round lasts as long as its slowest client: x down, the message up, each "
    "after the latency; computing is not in it. In full: with every number in 64 bits, both ways, in as many rounds."
)


@dataclass(frozen=True, eq=False)
class Explanation:
    """What the page says."""

    title: str
    learned: str
    weights: Table
    """A feature, its weight, and what it does."""
    heaviest: Sequence[tuple[str, float]]
    scores: Table
    cost: Table
    links: Sequence[LinkCost]
    command: str


def explanation_page(said: Explanation, curves: RunCurves) -> Page:
    """The page."""
    names, values = [name for name, _ in said.heaviest[:DRAWN]], [value for _, value in said.heaviest[:DRAWN]]
    drawn = Bars("the largest weights", names, {"weight": values}, Axis("weight"))
    loss = curves.figure("loss", {"training": "f"}, Axis("loss", log=True))
    return Page(
        said.title,
        "What the model learned, what the run cost, and what it would have cost on another link.",
        [
            Section(
                "What it learned",
                [Text(said.learned), *([Drawing(Figure("weights", [drawn]))] if names else []), said.weights],
            ),
            Section("How good it is", [said.scores]),
            Section("What it cost", [said.cost, Drawing(loss)]),
            Section("On another link", [Text(ELSEWHERE), links_table(said.links)]),
            Section("Again", [Code(said.command)]),
        ],
    )


def links_table(links: Sequence[LinkCost]) -> Table:
    """One line for every link."""
    head = ["link", "", "time", "mostly", "waiting alone", "up alone", "down alone", "in full"]
    rows = [
        [cost.name, cost.links, *map(human_seconds, (cost.seconds,)), cost.most]
        + [human_seconds(part) for part in (cost.waiting, cost.up, cost.down, cost.in_full)]
        for cost in links
    ]
    return Table(head, rows)
