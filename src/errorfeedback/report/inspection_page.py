"""The planner's findings as one page."""

from __future__ import annotations

from errorfeedback.planner.inspection import Inspection
from errorfeedback.planner.verdict import WORST_CASE
from errorfeedback.report.comparison_page import results, unbroken
from errorfeedback.report.inspection_figures import costs, promises, rarity
from errorfeedback.report.page import Block, Claim, Code, Details, Drawing, Page, Recommendation, Section, Table, Text

FIRST = 15
"""Methods in the page's first table, each with its best rule; all plans are in the second."""


def inspection_page(seen: Inspection, title: str, command: str = "") -> Page:
    """Facts, pattern, constants, plans and the verdict."""
    goal = f"{seen.goal()}: to (1/T) sum ||grad f||^2 <= {seen.epsilon:g} ||grad f(0)||^2, from x = 0."
    constants = [[c.name, c.value, c.how] for c in seen.constants]
    sections = [
        Section("What to run", _advice(seen)),
        Section(
            "What the theorems promise", [_promised(seen), *_feedback(seen), Drawing(promises(seen))], subtitle=WORST_CASE
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


def _advice(seen: Inspection) -> list[Block]:
    """Measured, where a trial was made."""
    if seen.trial is None:
        return [Text(seen.verdict.practice)]
    choice = Recommendation(
        seen.trial.contest.badge,
        f"errorfeedback train{'' if seen.trial.k is None else f' --k {seen.trial.k}'}",
        seen.verdict.practice,
    )
    return [choice, unbroken(results(seen.trial.contest))]


def _promised(seen: Inspection) -> Recommendation:
    return Recommendation("fastest" if seen.network else "fewest bytes", seen.verdict.winner.method, seen.verdict.reason)


def _feedback(seen: Inspection) -> list[Block]:
    kinds = {"few bits": seen.verdict.few_bits, "TopK": seen.verdict.top_k}
    return [Claim(f"Error feedback with {kind} helps by the theory", each.helps, each.text) for kind, each in kinds.items()]
