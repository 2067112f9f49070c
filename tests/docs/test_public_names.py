"""Every public name has a page, says what it is, and is shown in use by an example that runs."""

from __future__ import annotations

import ast
import inspect
import re

import command_page
import generated_pages
import public_names
from pages import DOCS, ROOT

import errorfeedback as ef

REASONS = {
    "Errors": "what `Adaptive` asks for by itself",
    "FullGradient": "what a simulation looks at by itself",
    "Sketches": "what `Adaptive` asks for by itself",
    "Host": "made by `host`",
    "Node": "handed to a method of your own",
    "Session": "made by an engine's `open`",
    "Setup": "handed to an engine of your own",
    "Step": "handed to a downlink of your own",
    "Shared": "for methods whose clients have memory in common: tests/runtime/test_checkpoint.py",
    "Verdict": "what a rule of your own that searches returns",
    "Result": "made by `solve`",
    "Comparison": "made by `compare`",
    "Inspection": "made by `inspect`",
    "Actors": "needs Ray: tests/engines/test_ray.py",
    "load": "needs a data set that is not part of the project",
    "EF21Plus": "one of a family: docs/methods.md, tests/reference",
    "RarePAGE": "a rule of one method, tested beside it",
    "ThreePointStep": "a rule of one family, tested beside it",
    **{f"ThreePointV{k}": "one of a family: docs/methods.md, tests/reference" for k in range(1, 6)},
    "Elsewhere": "the server of a federation: docs/federated.md, tests/engines",
    "Listener": "the server of a federation: docs/federated.md, tests/engines",
    "join": "a node of a federation: docs/federated.md, tests/engines",
    "NotInvitedError": "raised by `join`",
    "LivePage": "needs a browser: tests/watchers",
    "MLflow": "needs an extra: tests/watchers",
    "TensorBoard": "needs an extra: tests/watchers",
    "TqdmBar": "needs an extra: tests/watchers",
}
"""Why a name has no example of its own."""
RUN = [*sorted((DOCS / "gallery").glob("*.py")), *sorted((ROOT / "tests/extending").glob("*.py"))]
"""Programs that the build of the site, or the tests, run."""


def used():
    """ef.NAME, in programs that run and in doctests of the package."""
    programs = [path.read_text(encoding="utf-8") for path in RUN]
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    doctests = [line for source in sources for line in source.splitlines() if line.lstrip().startswith((">>>", "... "))]
    return {name for text in (*programs, *doctests) for name in re.findall(r"\bef\.([A-Za-z]\w*)", text)}


def has_example(value):
    """A doctest of its own or of a member."""
    own = vars(value).values() if inspect.isclass(value) else ()
    return any(">>>" in (each.__doc__ or "") for each in (value, *own))


def says_something(value):
    """A docstring that somebody wrote: dataclasses get their signature as one."""
    text = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    return bool(text) and not text.startswith(f"{value.__name__}(")


def test_every_public_name_says_what_it_is():
    assert [name for name in public_names.names() if not says_something(getattr(ef, name))] == []


def test_every_public_name_is_shown_in_use_by_an_example_that_runs():
    """Give a name without one a doctest, use it in another's, a tutorial or tests/extending, or say in REASONS why not."""
    shown = used() | set(REASONS)
    assert [name for name in public_names.names() if name not in shown and not has_example(getattr(ef, name))] == []


def test_a_reason_is_for_a_name_that_needs_one():
    assert [name for name in set(REASONS) & set(public_names.names()) if has_example(getattr(ef, name))] == []


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
