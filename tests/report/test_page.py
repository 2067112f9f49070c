"""A page is self-contained, escapes what it is given and carries its drawings' numbers."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from errorfeedback.plots.figure import Axis, Bars, Curve, Figure, Heatmap, Lines
from errorfeedback.report.page import Badge, Claim, Code, Details, Drawing, Page, Section, Table, Text

AXES = {"rounds": Axis("rounds"), "bits": Axis("bits")}


def figure() -> Figure:
    t = np.arange(4.0)
    curve = Curve("EF21 </script>", {"rounds": t, "bits": 64 * t}, np.array([1.0, 0.0, np.inf, 1e-3]))
    return Figure("one", [Lines("c/n", [curve], Axis("error", log=True))], AXES)


def specs(html: str) -> list[dict]:
    return [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)]


def test_a_page_loads_nothing_from_elsewhere():
    html = Page("T", "lead", [Section("S", [Text("x"), Drawing(figure())])]).html()
    own = html[: html.index("<script>")] + html[html.rindex("<script>") :]  # all but plotly.js itself
    assert "http://" not in own
    assert "https://" not in own
    assert not re.search(r'<(?:script|link|img)[^>]+(?:src|href)="(?!data:,)', html)


def test_plotly_is_embedded_once():
    html = Page("T", "", [Section(name, [Drawing(figure())]) for name in "ab"]).html()
    assert html.count("<script>") == 2  # plotly.js and page.js
    assert len(specs(html)) == 2


def test_text_cannot_break_the_page():
    evil = "</p><script>alert(1)</script>"
    blocks = [Text(evil), Code(evil), Badge(evil), Claim(evil, True, evil), Table([evil], [[evil]], evil)]
    html = Section(evil, [*blocks, Details(evil, [Text(evil)])], evil).html()
    assert "<script>" not in html


def test_a_drawing_has_every_x_axis_and_gaps_where_a_logarithm_has_no_place():
    (spec,) = specs(Drawing(figure()).html())
    assert spec["switch"]["rounds"]["x"] == [[0, 1, 2, 3]]
    assert spec["figure"]["data"][0]["y"] == [1.0, None, None, 1e-3]
    assert spec["switch"]["bits"]["x"] == [[0, 64, 128, 192]]
    (trace,) = spec["figure"]["data"]
    assert trace["name"] == "EF21 </script>"


def test_one_axis_needs_no_switch():
    assert 'class="switch"' in Drawing(figure()).html()
    f = figure()
    assert 'class="switch"' not in Drawing(Figure("one", f.panels, {"rounds": Axis("rounds")})).html()


def test_bars_and_heatmaps_are_drawn():
    panels = [
        Bars("b", ["x", "y"], {"s": [1.0, 2.0], "t": [2.0, 1.0]}, Axis("count")),
        Heatmap("h", np.eye(3, dtype=bool), "client", "feature"),
        Heatmap("v", np.eye(3), "client", "feature", "share"),
    ]
    kinds = [trace["type"] for spec in specs(Drawing(Figure("f", panels)).html()) for trace in spec["figure"]["data"]]
    assert kinds == ["bar", "bar", "heatmap", "heatmap"]


@pytest.mark.parametrize(("holds", "word"), [(True, "holds"), (False, "does not hold"), (None, "not checked")])
def test_a_verdict_says_so_in_words(holds: bool | None, word: str):
    assert f">{word}<" in Claim("claim", holds, "figures").html()


def test_a_row_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match="1 cells, but the head has 2"):
        Table(["a", "b"], [["x"]])


def test_a_curve_without_the_axis_is_refused():
    curve = Curve("EF21", {"rounds": np.arange(2.0)}, np.ones(2))
    with pytest.raises(ValueError, match="no x for the axis 'bits'"):
        Figure("f", [Lines("", [curve], Axis("y"))], AXES)
    with pytest.raises(ValueError, match="has no panel"):
        Figure("f", [])


def test_a_page_is_written(tmp_path):
    path = Page("T", "lead", [Section("S", [Text("x")])]).write(tmp_path / "sub" / "page.html")
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_curve_that_diverges_is_drawn_over_all_its_decades():
    curve = Curve("DCGD", {"rounds": np.arange(3.0), "bits": np.arange(3.0)}, np.array([1e-300, 1.0, 1e300]))
    (spec,) = specs(Drawing(Figure("f", [Lines("", [curve], Axis("y", log=True))], AXES)).html())
    assert spec["figure"]["layout"]["yaxis"]["dtick"] == 100
