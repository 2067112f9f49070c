"""Pages that are made from the code: one for every public name, their index, and the command line."""

import inspect
import re
from collections import Counter
from functools import cache
from importlib import import_module

import command_page
import name_examples
import plain_docstrings
import public_names

INDEX = """.. This page is written by docs/_ext/generated_pages.py.

Public names
============

``import errorfeedback as ef`` hands out everything on this page; a name is imported when it is first used. A page has the
docstring of the file that the name comes from, which states the formula and its source, then the name's own.

"""

MOST = 4
"""Names whose examples a page points at."""
ROUTING = ("set_fit_request", "set_score_request", "set_predict_request")
"""What scikit-learn adds to an estimator for itself."""
OTHERS = "<!-- pages that no index names -->"
"""Where a page of docs/ goes whose author did not say where it belongs."""


def with_others(text, docs):
    """The text of a page; where it has the mark, with a list of the pages that no index names."""
    named = "".join(path.read_text(encoding="utf-8") for path in docs.rglob("index.md"))
    left = [path.stem for path in sorted(docs.glob("*.md")) if not re.search(rf"^(\.\./)?{path.stem}$", named, re.MULTILINE)]
    pages = [f"../{stem}" for stem in left if stem != "index"]
    listed = ["```{toctree}", ":maxdepth: 1", ":caption: More", "", *pages, "```"] if pages else []
    return text.replace(OTHERS, "\n".join(listed))


def write(folder):
    """Write all pages; a page that has not changed is left alone, so that Sphinx does not read it again."""
    pages = {"names.rst": index(), "commands.md": command_page.page()}
    for name in public_names.names():
        pages[f"{path(name)}.rst"] = page(name, public_names.value(name), f"errorfeedback.{name}")
    for name in public_names.framework_names():
        pages[f"{path(name)}.rst"] = page(name, public_names.value(name), f"errorfeedback.interop.{name}")
    for place, text in pages.items():
        target = folder / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text() != text:
            target.write_text(text)


def path(name):
    """Classes and functions apart: `Host` and `host` are one file on some systems."""
    bare = name.rpartition(".")[2]
    return f"{'class' if bare[0].isupper() else 'function'}/{name}"


def index():
    """The index, by room."""
    lines = [INDEX]
    for heading, names in public_names.by_room():
        lines += [heading, "-" * len(heading), "", ".. list-table::", ""]
        for name in names:
            place = f"errorfeedback.{'interop.' if '.' in name else ''}{name}"
            lines += [f"   * - :py:obj:`ef.{name} <{place}>`", f"     - {summary(public_names.value(name))}"]
        lines += ["", ".. toctree::", "   :hidden:", ""]
        lines += [f"   ef.{name} <{path(name)}>" for name in names]
        lines.append("")
    return "\n".join(lines)


def summary(value):
    """What a public name is, in a sentence: that of its file, where the file hands out nothing else."""
    alone = _handed_out()[value.__module__] == 1
    text = inspect.getdoc(import_module(value.__module__) if alone else value) or ""
    paragraph = re.split(r"\n(?=\s)", text)[0].replace("\n", " ")
    return plain_docstrings.escaped(re.split(r"(?<=[^.])\.(?= [A-Z`]|$)", paragraph)[0].rstrip(".,:;"))


@cache
def _handed_out():
    """How many public names a file has."""
    every = [*public_names.names(), *public_names.framework_names()]
    return Counter(public_names.value(name).__module__ for name in every)


def page(name, value, full):
    """What the file says, what the name says, and the tutorials that use it."""
    title = f"ef.{name}"
    module = inspect.getdoc(import_module(value.__module__)) or ""
    kind = "class" if inspect.isclass(value) else "function"
    lines = [title, "=" * len(title), "", f"*Defined in* ``{value.__module__}``", ""]
    lines += plain_docstrings.restructured(module.splitlines())
    lines += [f".. auto{kind}:: {full}"]
    if kind == "class":
        lines += ["   :members:", "   :show-inheritance:", f"   :exclude-members: {', '.join(ROUTING)}"]
    if "." not in name:
        lines += [
            "",
            *_shown_with(name, value),
            f".. minigallery:: errorfeedback.{name}",
            "   :add-heading: Tutorials that use it",
        ]
    return "\n".join(lines) + "\n"


def _shown_with(name, value):
    """Where to see it in use, where its own docstring does not show it."""
    others = name_examples.elsewhere().get(name, [])[:MOST]
    if name_examples.of(value) or not others:
        return []
    return [f"In use in the examples of {', '.join(f':py:obj:`~errorfeedback.{other}`' for other in others)}.", ""]
