"""What all estimators say about their parameters and attributes is written once, in their base, and joined to what each says
of its own: `help(EF21Classifier)` explains every one."""

from __future__ import annotations

import re
from inspect import cleandoc

HEAD = re.compile(r"^(\w+)\n-{3,}\n", re.MULTILINE)
"""A section's title and its underline, as numpydoc has it."""
SHARED = ("Parameters", "Attributes")


def joined(own: str, base: str) -> str:
    """The docstring `own` with the shared sections of `base` before what it says in them itself.

    >>> print(joined("Short.\\n\\nExamples\\n---\\nx", "Long.\\n\\nParameters\\n---\\na : int"))
    Short.
    <BLANKLINE>
    Parameters
    ----------
    a : int
    <BLANKLINE>
    Examples
    --------
    x
    """
    summary, mine = _sections(own)
    _, theirs = _sections(base)
    sections = {title: "\n".join(filter(None, (theirs.get(title), mine.get(title)))) for title in SHARED}
    sections |= {title: text for title, text in mine.items() if title not in SHARED}
    return "\n\n".join([summary, *(f"{title}\n{'-' * len(title)}\n{text}" for title, text in sections.items() if text)])


def _sections(text: str) -> tuple[str, dict[str, str]]:
    summary, *parts = HEAD.split(cleandoc(text))
    return summary.strip(), {title: body.strip() for title, body in zip(parts[::2], parts[1::2], strict=True)}
