"""One self-contained HTML page: no network, light and dark, readable on a phone.

    page = Page("Title", "What this is.", [
        Section("First", [
            Text("A paragraph."),
            Claim("EF21 is faster", holds=True, figures="12 against 340 rounds"),
            Table(["rule", "gamma"], [["Theorem 1", 0.04]]),
            Drawing(figure),                    # a plots.figure.Figure: interactive
        ]),
    ])
    page.write(Path("page.html"))

A block is anything with `html()`. Text is escaped: a block cannot break the page. The style and the behaviour of the
page are `page.css` and `page.js` beside this file; drawings are plotly's (`report.drawing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Protocol, TypeAlias

from errorfeedback.extras import installed
from errorfeedback.report.drawing import Drawing, library

TONES = {True: "good", False: "bad", None: "open"}
WORDS = {True: "holds", False: "does not hold", None: "not checked"}


class Block(Protocol):
    """A part of a page."""

    def html(self) -> str: ...


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str

    def html(self) -> str:
        return f"<p>{escape(self.text)}</p>"


@dataclass(frozen=True)
class Code:
    """Commands or program text, with a button that copies them."""

    text: str

    def html(self) -> str:
        return f'<div class="code"><button type="button" class="copy">copy</button><pre>{escape(self.text)}</pre></div>'


@dataclass(frozen=True)
class Badge:
    """A coloured word, also for cells of a table; tone: good, bad, open."""

    text: str
    tone: str = "open"

    def html(self) -> str:
        return f'<span class="badge {escape(self.tone)}">{escape(self.text)}</span>'


@dataclass(frozen=True)
class Claim:
    """A statement, whether it holds (None: could not be checked) and the figures that say so.

    >>> "does not hold" in Claim("1 = 2", holds=False, figures="1 against 2").html()
    True
    """

    statement: str
    holds: bool | None
    figures: str

    @property
    def badge(self) -> Badge:
        return Badge(WORDS[self.holds], TONES[self.holds])

    def html(self) -> str:
        return (
            f'<div class="verdict {TONES[self.holds]}">{self.badge.html()}'
            f"<div><strong>{escape(self.statement)}</strong><p>{escape(self.figures)}</p></div></div>"
        )


@dataclass(frozen=True)
class Recommendation:
    """What was chosen, by what, and why."""

    by: str
    chosen: str
    reason: str

    def html(self) -> str:
        text = f"<strong>{escape(self.chosen)}</strong><p>{escape(self.reason)}</p>"
        return f'<div class="verdict good">{Badge(self.by, "good").html()}<div>{text}</div></div>'


Cell: TypeAlias = str | float | int | Badge | None


@dataclass(frozen=True)
class Table:
    """Numbers are shown with four digits and aligned to the right; None is an empty cell."""

    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.head):
                raise ValueError(f"a row has {len(row)} cells, but the head has {len(self.head)}: {row}")

    def html(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in self.head)
        body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in self.rows)
        caption = f"<caption>{escape(self.caption)}</caption>" if self.caption else ""
        return f'<div class="table"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


@dataclass(frozen=True)
class Details:
    """Blocks behind a line that opens them."""

    summary: str
    blocks: Sequence[Block]

    def html(self) -> str:
        return f"<details><summary>{escape(self.summary)}</summary>{_join(self.blocks)}</details>"


@dataclass(frozen=True)
class Section:
    """A heading, its blocks, and a place in the page's menu."""

    title: str
    blocks: Sequence[Block]
    subtitle: str = ""

    @property
    def anchor(self) -> str:
        return "".join(c if c.isalnum() else "-" for c in self.title.lower())

    def html(self) -> str:
        subtitle = f'<p class="subtitle">{escape(self.subtitle)}</p>' if self.subtitle else ""
        return f'<section id="{self.anchor}"><h2>{escape(self.title)}</h2>{subtitle}{_join(self.blocks)}</section>'


@dataclass(frozen=True)
class Page:
    """A title, a lead and sections."""

    title: str
    lead: str
    sections: Sequence[Section]
    footer: str = ""

    def html(self) -> str:
        """The whole document."""
        menu = "".join(f'<a href="#{s.anchor}">{escape(s.title)}</a>' for s in self.sections)
        body = _join(self.sections)
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<link rel="icon" href="data:,">'
            f"<title>{escape(self.title)}</title><style>{_asset('page.css')}</style></head><body>"
            f"<header><h1>{escape(self.title)}</h1><p>{escape(self.lead)}</p></header>"
            f'<nav><div class="menu">{menu}</div>'
            '<button type="button" id="theme" title="light or dark">◐</button></nav>'
            f"<main>{body}</main><footer>{escape(self.footer)}</footer>"
            f"<script>{library()}</script><script>{_asset('page.js')}</script></body></html>"
        )

    def write_where_possible(self, path: Path) -> list[Path]:
        """Save the page; without plotly nothing is written (a verb says so before it works)."""
        return [self.write(path)] if installed("plotly") else []

    def write(self, path: Path) -> Path:
        """Save the page."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.html(), encoding="utf-8")
        return path


def number(value: float) -> str:
    """Four digits, thousands apart, powers of ten where they are shorter.

    >>> number(1234567), number(0.041600885), number(1.2e-7), number(3.0)
    ('1,234,567', '0.0416', '1.2e-07', '3')
    """
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.4g}"


def _cell(cell: Cell) -> str:
    if cell is None:
        return "<td></td>"
    if isinstance(cell, Badge):
        return f"<td>{cell.html()}</td>"
    if isinstance(cell, str):
        return f"<td>{escape(cell)}</td>"
    return f'<td class="number">{number(cell)}</td>'


def _join(blocks: Sequence[Block]) -> str:
    return "".join(block.html() for block in blocks)


def _asset(name: str) -> str:
    return files("errorfeedback.report").joinpath(name).read_text(encoding="utf-8")


__all__ = [
    "Badge",
    "Block",
    "Cell",
    "Claim",
    "Code",
    "Details",
    "Drawing",
    "Page",
    "Recommendation",
    "Section",
    "Table",
    "Text",
    "number",
]
