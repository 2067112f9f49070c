"""A contest as tables, a figure and one page."""

from __future__ import annotations

from collections.abc import Mapping

from errorfeedback.planner.contest import HINDSIGHT, Contest, Entry
from errorfeedback.planner.units import human_bytes, human_seconds
from errorfeedback.report.comparison_figures import best_of_each, overview
from errorfeedback.report.page import Block, Cell, Code, Details, Drawing, Page, Recommendation, Section, Table, Text

SHARES = (0.5, 0.1, 0.01, 0.001)
"""What is left of the way from the start to the best loss, in the table of targets."""
COUNTED = (
    "Counted up: whole frames with their heads, values, indices, what a rule asks for, first uploads, who owns which "
    "feature, and the exponents of the scaling. Counted down: each client's part of the model, a rule's commands, scales. "
    "Not counted: the headers of the protocol below (TCP, TLS)."
)
IN_HINDSIGHT = (
    f"“2^k {HINDSIGHT}” is the best constant step on the grid of powers of two: the one with the lowest loss at the end, "
    "whose neighbours are both worse. Nobody could have known it before; its search is not counted."
)


def results(contest: Contest) -> Table:
    """A row for every method, the winner first."""
    return _results(contest, contest.entries)


def _results(contest: Contest, entries: list[Entry]) -> Table:
    timed = bool(contest.network)
    head = ["method", "loss at the end", "lowest loss", "rounds", "up", "down", "total", *(["time"] if timed else [])]
    title = f"loss {contest.level():.5g}"
    rows = [[*_books(entry), entry.cell(contest.level())] for entry in entries]
    caption = f"Per client, the whole run; the last column: {_what(contest)} until {title} is reached for good"
    return Table([*head, f"until {title}"], rows, caption)


def _books(entry: Entry) -> list[Cell]:
    spent = [human_bytes(float(each[-1])) for each in (entry.up, entry.down, entry.total)]
    time = [] if entry.seconds is None else [human_seconds(float(entry.seconds[-1]))]
    return [entry.label, f"{entry.final:.6g}", f"{entry.lowest:.6g}", f"{entry.history['round'][-1]:,}", *spent, *time]


def targets(contest: Contest) -> Table:
    """What every method needs until its loss is within a share of the way from the start to the best."""
    return _targets(contest, contest.entries)


def _targets(contest: Contest, entries: list[Entry]) -> Table:
    levels = [contest.level(share) for share in SHARES]
    rows: list[list[Cell]] = [[entry.label, *(entry.cell(level) for level in levels)] for entry in entries]
    return Table(["method", *(f"loss {level:.5g}" for level in levels)], rows, f"{_what(contest)}, until the loss is there")


def _what(contest: Contest) -> str:
    return "bytes up and down / rounds" + " / time on the network" * bool(contest.network)


def comparison_page(title: str, contest: Contest, left_out: Mapping[str, str], limits: str, command: str) -> Page:
    """The winner, the curves, the best run of every method, what each needs for every target, and all runs."""
    best = best_of_each(contest)
    every: list[Block] = []
    if len(best) < len(contest.entries):
        every = [Details(f"All {len(contest.entries)} runs, every step size", [unbroken(results(contest))])]
    if left_out:
        reasons: list[list[Cell]] = [[label, reason] for label, reason in left_out.items()]
        every.append(Details(f"{len(left_out)} could not take part", [Table(["who", "why"], reasons)]))
    hindsight = [Text(IN_HINDSIGHT)] if any(entry.choice == HINDSIGHT for entry in contest.entries) else []
    winner = Recommendation(contest.badge, contest.winner.label, contest.verdict())
    return Page(
        title,
        f"The same objective, the same start, the same limits ({limits}), ranked by {contest.asked}.",
        [
            Section("Winner", [winner, Text(COUNTED), *hindsight]),
            Section("Loss", [Drawing(overview(contest))]),
            Section("Results", [unbroken(_results(contest, best)), *every]),
            Section("Targets", [unbroken(_targets(contest, best))]),
            Section("Again", [Code(command)]),
        ],
    )


def unbroken(table: Table) -> Table:
    """Cells behind the first stay on one line."""
    rows = [[row[0], *(str(cell).replace(" ", "\u00a0") for cell in row[1:])] for row in table.rows]
    return Table(table.head, rows, table.caption)
