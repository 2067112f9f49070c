"""How results show themselves in a notebook: a small table."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def table(caption: str, rows: Sequence[Sequence[object]], head: Sequence[str] = ()) -> str:
    """Numbers with six digits, everything escaped.

    >>> table("a < b", [["loss", 0.123456789]])
    '<table><caption>a &lt; b</caption><tr><td>loss</td><td>0.123457</td></tr></table>'
    """
    top = "<tr>" + "".join(f"<th>{escape(name)}</th>" for name in head) + "</tr>" if head else ""
    body = "".join("<tr>" + "".join(f"<td>{escape(shown(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption>{top}{body}</table>"


def shown(value: object) -> str:
    """Whole numbers with their thousands apart, others with six digits.

    >>> shown(12345), shown(0.1234567), shown("as it is")
    ('12,345', '0.123457', 'as it is')
    """
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
