"""Docstrings of this project are plain text: formulas with |, * and _, names in `ticks`, formulas set apart by indentation.

Before Sphinx reads them as reStructuredText, what would be markup by accident is escaped (*stressed words* stay), indented
formulas become literal blocks, and public names in ticks become links, unless they are parameters of what is described.
"""

import inspect
import re
from functools import cache
from itertools import groupby
from textwrap import dedent

import public_names

TICKS = re.compile(r"``.+?``|`[^`]+`")
STRESSED = re.compile(r"(?<![^\s(])\*(?=[A-Za-z])[^*]*[^*\s]\*(?![\w*])")
SPECIAL = re.compile(r"([\\*|])")
TRAILING = re.compile(r"(?<=\w)_(?!\w)")
UNDERLINE = re.compile(r"^-{3,}$")
ITEM = re.compile(r"^\s*(- |\d+\. )")
EXAMPLE = re.compile(r"^\s*(>>>|\.\.\.) ?")


def escaped(text, parameters=()):
    """A line without markup but for its ticks."""
    out, at = [], 0
    for match in TICKS.finditer(text):
        out += [_plain(text[at : match.start()]), _ticked(match.group().strip("`"), parameters)]
        at = match.end()
    return "".join(out) + _plain(text[at:])


def _plain(text):
    out, at = [], 0
    for match in STRESSED.finditer(text):
        out += [_literal(text[at : match.start()]), match.group()]
        at = match.end()
    return "".join(out) + _literal(text[at:])


def _literal(text):
    return TRAILING.sub(r"\_", SPECIAL.sub(r"\\\1", text))


def _ticked(name, parameters):
    bare = name.removeprefix("ef.")
    return f":py:obj:`~errorfeedback.{bare}`" if bare in _names() and name not in parameters else f"``{name}``"


@cache
def _names():
    return frozenset(public_names.names())


def restructured(lines, parameters=()):
    """The lines of a docstring as reStructuredText."""
    sections = any(UNDERLINE.match(line.strip()) for line in lines)
    out, block = [], []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
            continue
        out += _block(block, sections, parameters)
        block = []
    return out


def _block(block, sections, parameters):
    """A paragraph: an example, a formula, or text with formulas or a list in it."""
    if not block:
        return []
    if block[0].lstrip().startswith(">>>"):
        return [*block, ""]
    if sections:
        return [*(line if _stays(line) else escaped(line, parameters) for line in block), ""]
    out, listed = [], False
    for formula, lines in groupby(block, key=_is_formula):
        listed = listed or any(ITEM.match(line) for line in out)
        if formula and not listed:
            out += ["", "::", "", *(f"    {line}" for line in dedent("\n".join(lines)).split("\n")), ""]
        else:
            out += _text(lines, parameters)
    return [*out, ""]


def _stays(line):
    return UNDERLINE.match(line.strip()) or EXAMPLE.match(line)


def _is_formula(line):
    return line.startswith("  ") and not ITEM.match(line)


def _text(lines, parameters):
    """Escaped lines; a list begins after an empty line."""
    out = []
    for line in lines:
        if ITEM.match(line) and out and not ITEM.match(out[-1]):
            out.append("")
        out.append(escaped(line, parameters))
    return out


def setup(app):
    """Before numpydoc."""
    app.connect("autodoc-process-docstring", _rewrite, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _rewrite(app, what, name, obj, options, lines):
    lines[:] = restructured(list(lines), _parameters(obj))


def _parameters(obj):
    try:
        return set(inspect.signature(obj).parameters)
    except (TypeError, ValueError):  # an attribute
        return ()
