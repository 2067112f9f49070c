"""What a comparison draws: the loss above the lowest, and the gradient, over rounds, bytes up, bytes in all and time.

A curve is that of the typical seed; its band goes from the least to the largest over all seeds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from errorfeedback.core import Floats
from errorfeedback.planner.contest import Contest, Entry
from errorfeedback.plots.figure import COLOURS, DASHES, Axis, Curve, Figure, Lines

SHOWN = 8
"""Methods that are drawn at first; more are not told apart."""
UNITS = {"hours": 3600.0, "minutes": 60.0}
LOSS, GRADIENT = "loss", "gradient"
QUANTITIES = {LOSS: Axis("loss above the lowest", log=True), GRADIENT: Axis("squared gradient norm", log=True)}
ROUNDING = {LOSS: 1e-12, GRADIENT: 1e-22}
"""Below this share of the start nothing is drawn: rounding takes over."""


def shown_first(contest: Contest) -> list[Entry]:
    """What is drawn where nobody chooses."""
    return varied(contest)[:SHOWN]


def varied(contest: Contest) -> list[Entry]:
    """The best run of every method; first the best of every family, EF21 once however many ways down it has, as far as there
    is room; then the others in the order of the ranking."""
    families: dict[str, Entry] = {}
    for entry in contest.entries:
        families.setdefault(re.split("[ ,]", entry.entrant)[0], entry)
    first = list(families.values())[:SHOWN]
    return [*first, *(entry for entry in best_of_each(contest) if entry not in first)]


def best_of_each(contest: Contest) -> list[Entry]:
    """The best run of every method, in the order of the ranking."""
    best: dict[str, Entry] = {}
    for entry in contest.entries:
        best.setdefault(entry.entrant, entry)
    return list(best.values())


def axes(contest: Contest) -> dict[str, Axis]:
    """What a curve can be drawn over, the price first."""
    counted = {
        "total": Axis("kB per client, up and down", log=True),
        "up": Axis("kB per client, up", log=True),
        "rounds": Axis("rounds", log=True),
    }
    timed = {"time": Axis(f"{_unit(contest)[0]} on the network", log=True)}
    return {**timed, **counted} if contest.network else counted


def overview(contest: Contest) -> Figure:
    """Both quantities: the best run of every method, those behind the first few only when asked for."""
    entries = varied(contest)
    panels = [
        Lines(
            quantity.label, [_curve(contest, entry, of, place) for place, entry in enumerate(entries)], quantity, legend=last
        )
        for (of, quantity), last in zip(QUANTITIES.items(), (False, True), strict=True)
    ]
    network = (
        f" Time on the network: {contest.network}; a round lasts as long as its slowest client." if contest.network else ""
    )
    bands = " Bands: from the least to the largest over the seeds." if any(len(entry.seeds) > 1 for entry in entries) else ""
    hidden = (
        f" The best of the first {SHOWN} families are drawn; click a name for the others." if len(entries) > SHOWN else ""
    )
    return Figure("loss", panels, axes(contest), columns=1, caption=f"The best run of every method.{hidden}{bands}{network}")


def single(contest: Contest, entries: Sequence[Entry], of: str, over: str) -> Figure:
    """One quantity over one axis, for print."""
    known = axes(contest)
    for name, value, choices in (("of", of, list(QUANTITIES)), ("over", over, list(known))):
        if value not in choices:
            raise ValueError(f"{name} = {value!r}; it must be one of {', '.join(choices)}")
    curves = [_curve(contest, entry, of, place) for place, entry in enumerate(entries)]
    return Figure(f"{of}-{over}", [Lines("", curves, QUANTITIES[of])], {over: known[over]})


def _curve(contest: Contest, entry: Entry, of: str, place: int) -> Curve:
    column, floor = ("f", contest.lowest) if of == LOSS else ("residual2", 0.0)
    least = ROUNDING[of] * (float(entry.history[column][0]) - floor)
    y, band = _above(entry.history[column] - floor, least), entry.band(column)
    ends = None if band is None else (_above(band[0] - floor, least), _above(band[1] - floor, least))
    dash = place // len(COLOURS) % len(DASHES)
    return Curve(entry.label, _places(contest, entry), y, place, dash, ends, hidden=place >= SHOWN)


def _above(values: Floats, least: float) -> Floats:
    """With a gap where rounding takes over."""
    return np.where(values > least, values, np.nan)


def _unit(contest: Contest) -> tuple[str, float]:
    """What the longest run is read in, and its seconds."""
    longest = max((float(e.seconds[-1]) for e in contest.entries if e.seconds is not None), default=0.0)
    return next(((name, size) for name, size in UNITS.items() if longest >= 2 * size), ("seconds", 1.0))


def _places(contest: Contest, entry: Entry) -> dict[str, Floats]:
    """Where the recorded rounds of a run stand on every axis."""
    rounds = np.asarray(entry.history["round"], dtype=np.float64)
    coordinates = {"total": entry.total / 1e3, "up": entry.up / 1e3, "rounds": rounds}
    return coordinates if entry.seconds is None else {"time": entry.seconds / _unit(contest)[1], **coordinates}
