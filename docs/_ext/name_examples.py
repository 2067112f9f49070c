"""Which example shows a public name: its own, that of another name, or a program that runs."""

import inspect
import re
from collections import defaultdict
from functools import cache

import public_names

import errorfeedback

EXAMPLE = re.compile(r"^\s*(?:>>>|\.\.\.) (.*)$", re.MULTILINE)
USED = re.compile(r"\bef\.([A-Za-z]\w*)")


def of(value):
    """The lines of a name's doctests, those of its members among them."""
    members = vars(value).values() if inspect.isclass(value) else ()
    return [line for each in (value, *members) for line in EXAMPLE.findall(getattr(each, "__doc__", None) or "")]


def used(text):
    """The public names that a text uses as ef.NAME."""
    return set(USED.findall(text))


@cache
def elsewhere():
    """For every name the other names whose examples use it."""
    shown = defaultdict(list)
    for name in public_names.names():
        for other in sorted(used("\n".join(of(getattr(errorfeedback, name)))) - {name}):
            shown[other].append(name)
    return dict(shown)
