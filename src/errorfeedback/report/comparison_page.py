"""A contest as tables, a figure and one page."""

from __future__ import annotations

from errorfeedback.core import Floats
from errorfeedback.planner.contest import Contest, Entry
from errorfeedback.planner.units import human_bytes, human_seconds
from errorfeedback.plots.figure import Axis, Curve, Figure, Lines
from errorfeedback.report.page import Cell, Code, Drawing, Page, Recommendation, Section, Table, Text

SHARES = (0.5, 0.1, 0.01, 0.001)
"""What is left of the way from the start to the best loss, in the table of targets."""
UNITS = {"hours": 3600.0, "minutes": 60.0}
COUNTED = (
    "Counted up: whole frames with their heads, values, indices, what a rule asks for, first uploads and the scaling's "
    "exponents. Counted down: every client's part of the model, a rule's commands and the scales. Not counted: the headers "
    "of the protocol below (TCP, TLS), and how the server comes to know who owns which feature."
)


def results(contest: Contest) -> Table:
    """A row for every method, the winner first."""
    timed = bool(contest.network)
    head = ["method", "loss at the end", "lowest loss", "rounds", "up", "down", "total", *(["time"] if timed else [])]
    title = f"loss {contest.level():.5g}"
    rows = [[*_books(entry), entry.cell(contest.level())] for entry in contest.entries]
    caption = f"Per client, the whole run; the last column: {_what(contest)} until {title} is reached for good"
    return Table([*head, f"until {title}"], rows, caption)


def _books(entry: Entry) -> list[Cell]:
    spent = [human_bytes(float(each[-1])) for each in (entry.up, entry.down, entry.total)]
    time = [] if entry.seconds is None else [human_seconds(float(entry.seconds[-1]))]
    return [entry.label, f"{entry.final:.6g}", f"{entry.lowest:.6g}", f"{entry.history['round'][-1]:,}", *spent, *time]


def targets(contest: Contest) -> Table:
    """What every method needs until its loss is within a share of the way from the start to the best."""
    levels = [contest.level(share) for share in SHARES]
    rows: list[list[Cell]] = [[entry.label, *(entry.cell(level) for level in levels)] for entry in contest.entries]
    return Table(["method", *(f"loss {level:.5g}" for level in levels)], rows, f"{_what(contest)}, until the loss is there")


def _what(contest: Contest) -> str:
    return "bytes up and down / rounds" + " / time on the network" * bool(contest.network)


def figure(contest: Contest) -> Figure:
    """The loss of every method over what is counted, and over rounds."""
    unit, _ = _unit(contest)
    axes = {"total": Axis("kB per client, up and down"), "up": Axis("kB per client, up"), "rounds": Axis("rounds")}
    if contest.network:
        axes = {"time": Axis(f"{unit} on the network"), **axes}
    curves = [Curve(e.label, _places(contest, e), e.history["f"], k, k // 7) for k, e in enumerate(contest.entries)]
    timed = f"Time on the network: {contest.network}; a round lasts as long as its slowest client."
    return Figure(
        "loss", [Lines("", curves, Axis("loss", log=True))], axes, columns=1, caption=timed * bool(contest.network)
    )


def _unit(contest: Contest) -> tuple[str, float]:
    """What the longest run is read in, and its seconds."""
    longest = max((float(e.seconds[-1]) for e in contest.entries if e.seconds is not None), default=0.0)
    return next(((name, size) for name, size in UNITS.items() if longest >= 2 * size), ("seconds", 1.0))


def _places(contest: Contest, entry: Entry) -> dict[str, Floats]:
    """Where the recorded rounds of a run stand on every axis."""
    coordinates = {"total": entry.total / 1e3, "up": entry.up / 1e3, "rounds": entry.history["round"].astype(float)}
    return coordinates if entry.seconds is None else {"time": entry.seconds / _unit(contest)[1], **coordinates}


def comparison_page(title: str, contest: Contest, limits: str, command: str) -> Page:
    """The winner, the results, the curves, and what every method needs for every target."""
    return Page(
        title,
        f"The same objective, the same start, the same limits ({limits}), ranked by {contest.asked}.",
        [
            Section("Winner", [Recommendation(contest.badge, contest.winner.label, contest.verdict()), Text(COUNTED)]),
            Section("Results", [unbroken(results(contest))]),
            Section("Loss", [Drawing(figure(contest))]),
            Section("Targets", [unbroken(targets(contest))]),
            Section("Again", [Code(command)]),
        ],
    )


def unbroken(table: Table) -> Table:
    """Cells behind the first stay on one line."""
    rows = [[row[0], *(str(cell).replace(" ", "\u00a0") for cell in row[1:])] for row in table.rows]
    return Table(table.head, rows, table.caption)
