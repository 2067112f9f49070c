"""The race in tables of Markdown: for every data set and level what each method needs, who is best in each column, and what
we need against the best peer; then all ratios together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from racing.contest import QUANTITIES, US

Needs = Mapping[str, Mapping[str, float]]
"""needs[method][quantity]."""


def table(needs: Needs) -> str:
    """A row for every method; the best of a column is bold; the last row is ours against the best peer."""
    best = {q: min(needs[method][q] for method in needs) for q in QUANTITIES}
    rows = [["method", *QUANTITIES]]
    rows += [[method, *(cell(each[q], each[q] == best[q]) for q in QUANTITIES)] for method, each in needs.items()]
    if US in needs and len(needs) > 1:
        rows.append(["us / best peer", *(ratio(*against(needs, q)) for q in QUANTITIES)])
    return markdown(rows)


def against(needs: Needs, quantity: str) -> tuple[float, str]:
    """What we need as a share of what the best peer needs, and who that is."""
    peer = min((method for method in needs if method != US), key=lambda method: needs[method][quantity])
    mine, theirs = needs[US][quantity], needs[peer][quantity]
    if not np.isfinite(theirs):
        return (0.0, "nobody") if np.isfinite(mine) else (np.nan, "nobody")
    return (mine / theirs if theirs else np.inf if mine else 1.0), peer


def ratio(share: float, peer: str) -> str:
    if np.isnan(share):
        return "nobody is there"
    if peer == "nobody":
        return "alone there"
    return "not there, or for nothing there" if np.isinf(share) else f"{share:.2f} ({peer})"


def summary(all_needs: Mapping[str, Needs]) -> str:
    """Our ratios on every data set."""
    raced = {name: needs for name, needs in all_needs.items() if US in needs and len(needs) > 1}
    rows = [["data", *QUANTITIES]]
    rows += [[name, *(ratio(*against(needs, q)) for q in QUANTITIES)] for name, needs in raced.items()]
    return markdown(rows)


def cell(value: float, best: bool) -> str:
    """Three digits; bold where it wins.

    >>> cell(1234.5, True), cell(0.012345, False), cell(np.inf, False)
    ('**1,234**', '0.0123', '-')
    """
    if not np.isfinite(value):
        return "-"
    text = f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
    return f"**{text}**" if best else text


def markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    return "\n".join(_line(row) for row in (head, ["---"] * len(head), *body))


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"
