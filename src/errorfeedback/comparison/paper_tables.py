"""The ranking for a paper: CSV with plain numbers, LaTeX with booktabs' rules.

Losses are medians over the seeds, their span beside them; what a run cost is that of the typical seed until the goal.
"""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

import numpy as np

from errorfeedback.planner.contest import GOAL, HINDSIGHT, Contest, Entry
from errorfeedback.planner.units import human_bytes, human_seconds

SPECIAL = {"\\": r"\textbackslash{}", "_": r"\_", "%": r"\%", "&": r"\&", "#": r"\#", "^": r"\^{}", "~": r"\~{}", "$": r"\$"}
"""What LaTeX reads as something else."""
PAGE = 45
"""Rows that a page has room for."""


def row(contest: Contest, entry: Entry) -> dict[str, Any]:
    """One contestant in numbers; None where it does not get there."""
    there = entry.there(contest.level())
    finals = [float(history["f"][-1]) for history in entry.seeds] or [entry.final]
    cost: dict[str, float | None] = {"rounds": None, "bytes_up": None, "bytes_total": None, "seconds": None}
    if there is not None:
        cost = {
            "rounds": int(entry.history["round"][there]),
            "bytes_up": float(entry.up[there]),
            "bytes_total": float(entry.total[there]),
            "seconds": None if entry.seconds is None else float(entry.seconds[there]),
        }
    return {
        "method": entry.entrant or entry.label,
        "step": entry.choice,
        "rule": entry.choice if entry.label == entry.entrant else entry.label.removeprefix(f"{entry.entrant}, "),
        "gamma": entry.gamma,
        "seeds": len(finals),
        "loss": entry.final,
        "loss_least": min(finals),
        "loss_most": max(finals),
        "gradient": float(np.sqrt(entry.history["residual2"][-1])),
        **(cost if contest.network else {name: cost[name] for name in cost if name != "seconds"}),
    }


def head(contest: Contest) -> list[str]:
    """The names of the columns."""
    return list(row(contest, contest.winner))


def csv_text(contest: Contest) -> str:
    """All rows; an empty cell is a goal that was not reached."""
    text = StringIO()
    writer = csv.DictWriter(text, head(contest), lineterminator="\n")
    writer.writeheader()
    writer.writerows(row(contest, entry) for entry in contest.entries)
    return text.getvalue()


def latex_text(contest: Contest) -> str:
    r"""A `tabular` for \usepackage{booktabs}, or a `longtable` where it is longer than a page; a step in hindsight is marked
    with a dagger."""
    long = len(contest.entries) > PAGE
    environment, head_ends = ("longtable", [r"\endhead"]) if long else ("tabular", [])
    timed = bool(contest.network)
    columns = ["Method", "Step", r"$\gamma$", "Loss", "Rounds", "Up", "Up and down", *(["Time"] if timed else [])]
    lines = [" & ".join(_cells(row(contest, entry), timed)) + r" \\" for entry in contest.entries]
    until = f"Cost per client until {100 * (1 - GOAL):g}% of the way to the lowest loss, ${contest.level():.6g}$."
    return "\n".join(
        [
            rf"% \usepackage{{booktabs{',longtable' * long}}}",
            f"% {until}",
            r"% $^\dagger$ the best constant step 2^k, chosen in hindsight.",
            rf"\begin{{{environment}}}{{ll{'r' * (len(columns) - 2)}}}",
            r"\toprule",
            " & ".join(columns) + r" \\",
            r"\midrule",
            *head_ends,
            *lines,
            r"\bottomrule",
            rf"\end{{{environment}}}",
            "",
        ]
    )


def _cells(cells: dict[str, Any], timed: bool) -> list[str]:
    dagger = r"$^\dagger$" if cells["step"] == HINDSIGHT else ""
    loss = f"{cells['loss']:.4g}"
    if cells["loss_least"] < cells["loss_most"]:
        loss += f" [{cells['loss_least']:.4g}, {cells['loss_most']:.4g}]"
    rounds = "--" if cells["rounds"] is None else f"{cells['rounds']:,}"
    sizes = ["--" if cells[name] is None else human_bytes(cells[name]) for name in ("bytes_up", "bytes_total")]
    time = ["--" if cells["seconds"] is None else human_seconds(cells["seconds"])] if timed else []
    rule = cells["rule"].removesuffix(f" {HINDSIGHT}")
    return [tex(cells["method"]), tex(rule) + dagger, f"{cells['gamma']:.3g}", loss, rounds, *map(tex, [*sizes, *time])]


def tex(text: str) -> str:
    r"""What LaTeX prints as this text.

    >>> tex("2^-3 of EF21_x")
    '2\\^{}-3 of EF21\\_x'
    """
    return "".join(SPECIAL.get(letter, letter) for letter in text)
