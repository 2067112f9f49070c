"""The pages as they are written: links, headings, and where Sphinx will put what it makes."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
MADE = ("_build", "generated", "tutorials")
"""Folders that the build writes."""
LINK = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^(```|:::).*?^\1", re.MULTILINE | re.DOTALL)
TICKS = re.compile(r"`[^`\n]*`")
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def pages():
    """Every page that people write."""
    written = [path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in MADE]
    return sorted([*written, *ROOT.glob("*.md")])


def links(text):
    """The targets of all links, without those of examples."""
    return LINK.findall(TICKS.sub("", FENCE.sub("", text)))


def anchors(text):
    """What a heading is called in an address, by the rules of GitHub, which MyST follows."""
    words = [heading.strip().replace("`", "").lower() for heading in HEADING.findall(FENCE.sub("", text))]
    return {re.sub(r"[^\w\- ]", "", each).replace(" ", "-") for each in words}
