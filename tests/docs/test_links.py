"""No link inside the documentation leads nowhere."""

from __future__ import annotations

import re

import generated_pages
import pytest
from pages import DOCS, ROOT, anchors, links, pages

FILE = r"`((?:tests|benchmarks|src|docs)/[\w./*-]+)`"
"""A file of this repository, or several by a pattern, as pages name it."""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What the build writes: pages from the code, and one for every tutorial."""
    folder = tmp_path_factory.mktemp("made")
    generated_pages.write(folder / "generated")
    written = {DOCS / path.relative_to(folder): path.read_text() for path in folder.rglob("*.*")}
    tutorials = ["index", *(path.stem for path in (DOCS / "gallery").glob("*.py"))]
    return written | {DOCS / "tutorials" / f"{name}.rst": "" for name in tutorials}


def test_every_link_leads_to_a_file_and_a_heading(made):
    dead = [f"{page.relative_to(ROOT)}: {link}" for page in pages() for link in inside(page) if not leads(page, link, made)]
    assert dead == []


def inside(page):
    """The links of a page that are not to other sites."""
    return [link for link in links(page.read_text(encoding="utf-8")) if not re.match(r"[a-z]+:", link)]


def leads(page, link, made):
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    if target not in made and not target.exists():
        return False
    there = (
        made[target] if target in made else "" if target.is_dir() else target.read_text(encoding="utf-8", errors="replace")
    )
    return not anchor or anchor in anchors(there)


def test_the_tutorials_name_pages_and_tutorials_that_are_there():
    for tutorial in (DOCS / "gallery").glob("*.py"):
        for name in re.findall(r":doc:`(?:[^`<]*<)?([^`>]+)>?`", tutorial.read_text()):
            page = DOCS / f"{name[1:]}.md" if name.startswith("/") else tutorial.parent / f"{name}.py"
            assert page.exists(), f"{tutorial.name} names {name}"


def test_the_files_that_pages_name_are_there():
    """Those of the tests that keep what `promises` promises among them."""
    named = {page: re.findall(FILE, page.read_text(encoding="utf-8")) for page in pages()}
    missing = [f"{page.relative_to(ROOT)}: {file}" for page, files in named.items() for file in files if not there(file)]
    assert missing == []
    assert "tests/killing.py" in named[DOCS / "explanation/promises.md"]
    assert not there("tests/theory/test_lemma_99.py")


def there(file):
    return any(ROOT.glob(file))


def test_a_dead_link_is_found():
    assert links("see [a](b.md#c) and `[not](this)`") == ["b.md#c"]
    assert not leads(DOCS / "data.md", "nowhere.md", {})
    assert not leads(DOCS / "data.md", "theory.md#nothing", {})
    assert leads(DOCS / "data.md", "theory.md#1-setting-paper", {})
    assert anchors("# Files & frames, `byte` by byte") == {"files--frames-byte-by-byte"}
