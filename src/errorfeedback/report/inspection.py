"""The planner's findings as one page."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from errorfeedback.planner.inspection import Inspection
from errorfeedback.plots.inspection import costs, rarity
from errorfeedback.report.page import Badge, Code, Details, Drawing, Page, Section, Table, Text, Verdict

FIRST = 15
"""Plans in the page's first table; all are in the second."""


def page(seen: Inspection, title: str, command: str = "") -> Page:
    """Facts, pattern, constants, plans and the verdict."""
    network = f"; time on a link with {seen.network}" if seen.network else ""
    goal = f"To (1/T) sum ||grad f||^2 <= {seen.epsilon:g} ||grad f(0)||^2, from x = 0, by each rule's theorem{network}."
    constants = [[c.name, c.value, c.how] for c in seen.constants]
    sections = [
        Section(
            "Verdict",
            [Winner(seen.verdict.winner.method, seen.verdict.reason), _feedback(seen), Text(seen.verdict.practice)],
        ),
        Section("Features", [Table(["", ""], [list(row) for row in seen.facts()]), Drawing(rarity(seen))]),
        Section("Constants", [Table(["constant", "value", "how it was computed"], constants)]),
        Section(
            "Plans",
            [
                Drawing(costs(seen)),
                Table(seen.head(), seen.rows(FIRST)),
                Details(f"all {len(seen.plans)} plans", [Table(seen.head(), seen.rows())]),
            ],
            subtitle=goal,
        ),
    ]
    if command:
        sections.append(Section("Again", [Code(command)]))
    return Page(f"Before you run: {title}", seen.census.title, sections)


@dataclass(frozen=True)
class Winner:
    """The plan with the fewest bits, and why."""

    method: str
    reason: str

    def html(self) -> str:
        badge = Badge("fewest bits", "good").html()
        text = f"<strong>{escape(self.method)}</strong><p>{escape(self.reason)}</p>"
        return f'<div class="verdict good">{badge}<div>{text}</div></div>'


def _feedback(seen: Inspection) -> Verdict:
    return Verdict("Error feedback helps by the theory", seen.verdict.helps, seen.verdict.error_feedback)
