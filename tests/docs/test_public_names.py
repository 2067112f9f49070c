"""Every public name has a page, says what it and its parameters are, and is shown in use by an example that runs."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from enum import Enum
from importlib import import_module
from itertools import pairwise
from typing import Protocol

import command_page
import generated_pages
import name_examples
import public_names
from pages import DOCS, ROOT

import errorfeedback as ef

REASONS = {"Actors": "needs Ray, which has an environment of its own: tests/engines/test_ray.py"}
"""Why a name has no example of its own."""
RUN = [*sorted((DOCS / "gallery").glob("*.py")), *sorted((ROOT / "tests/extending").glob("*.py"))]
"""Programs that the build of the site, or the tests, run."""


def says_something(value):
    """A docstring that somebody wrote: dataclasses get their signature as one."""
    text = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    return bool(text) and not text.startswith(f"{value.__name__}(")


def test_every_public_name_says_what_it_is():
    assert [name for name in public_names.names() if not says_something(getattr(ef, name))] == []


def test_every_public_name_is_shown_in_use_by_an_example_that_runs():
    """Give a name without one a doctest, use it in another's, a tutorial or tests/extending, or say in REASONS why not."""
    shown = {name for path in RUN for name in name_examples.used(path.read_text(encoding="utf-8"))} | set(
        name_examples.elsewhere()
    )
    without = {name for name in public_names.names() if name not in shown and not name_examples.of(getattr(ef, name))}
    assert without == set(REASONS)


def public():
    """(name, what it is), those of the frameworks among them."""
    for name in public_names.names():
        yield name, getattr(ef, name)
    for name in public_names.framework_names():
        framework, _, bare = name.partition(".")
        yield name, getattr(import_module(f"errorfeedback.interop.{framework}"), bare)


def parameters(value):
    """What a caller gives; nobody calls protocols, enumerations and errors."""
    uncalled = inspect.isclass(value) and (issubclass(value, (Enum, Exception)) or issubclass(value, Protocol))
    return {} if uncalled else inspect.signature(value).parameters


def described(value):
    """Parameters that are named in ticks where the value is described, or as fields with a docstring; where the others
    are said to be those of another name, its parameters."""
    ours = [kind for kind in getattr(value, "__mro__", [value]) if kind.__module__.startswith("errorfeedback")]
    text = "\n".join(each.__doc__ or "" for each in ours)
    said = {name for ticked in re.findall(r"`([^`]+)`", text) for name in re.findall(r"\w+", ticked)}
    said |= set(re.findall(r"^\s*(\w+) : ", text, re.MULTILINE))  # a section of parameters, as scikit-learn has it
    for other in re.findall(r"ptions (?:as in|are those of)\s+`(?:ef\.)?([\w.]+)`", text):
        said |= described(dict(public())[other]) | {"options"}
    return said.union(*(fields_with_docstrings(kind) for kind in ours if inspect.isclass(kind)))


def fields_with_docstrings(kind):
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body
    return {
        field.target.id
        for field, after in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    }


def test_every_parameter_of_a_public_name_is_explained():
    """In ticks in the docstring, or by a docstring below the field."""
    missing = {name: set(parameters(value)) - described(value) for name, value in public()}
    assert {name: left for name, left in missing.items() if left} == {}


def test_every_name_has_a_page_and_every_verb_a_section(tmp_path):
    generated_pages.write(tmp_path)
    index = (tmp_path / "names.rst").read_text()
    for name in [*public_names.names(), *public_names.framework_names()]:
        assert (tmp_path / f"{generated_pages.path(name)}.rst").exists()
        assert f"<{generated_pages.path(name)}>" in index
    headings = re.findall(r"^## errorfeedback (.+)$", command_page.page(), re.MULTILINE)
    assert {"train", "inspect", "compare", "predict", "evaluate", "resume", "reproduce", "report"} <= set(headings)


def test_tutorials_are_python_and_use_names_that_exist():
    for path in sorted((DOCS / "gallery").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert ast.get_docstring(tree), f"{path.name} begins with its title"
        attributes = [
            node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        ]
        names = {node.attr for node in attributes if node.value.id == "ef"} - set(ef.FRAMEWORKS)
        assert names <= set(public_names.names()), f"{path.name}: {names - set(public_names.names())}"
