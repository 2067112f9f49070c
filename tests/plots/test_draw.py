"""Figures for print: the files are there, every curve has its legend, and redrawing gives the same bytes."""

from __future__ import annotations

import numpy as np
import pytest

from errorfeedback.plots.draw import draw, save
from errorfeedback.plots.figure import Axis, Bars, Curve, Figure, Heatmap, Lines

AXES = {"rounds": Axis("rounds", log=True), "bits": Axis("bits", log=True), "authors": Axis("their bits", log=True)}


def lines(title: str = "c/n = 0.05", **options) -> Lines:
    t = np.arange(5.0)
    curve = Curve("EF21, Theorem 1, γ = 0.04", {"rounds": t, "bits": 70 * t, "authors": 32 * t}, 10.0**-t)
    return Lines(title, [curve], Axis("‖∇f(x)‖²", log=True), **options)


def test_png_and_svg_are_written(tmp_path):
    png, svg = save(Figure("figure-2", [lines()], AXES), tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in svg.read_text(encoding="utf-8")


def test_a_row_of_curves_is_shown_over_rounds_and_over_bits_with_one_legend():
    canvas = draw(Figure("f", [lines("a"), lines("b"), lines("c")], AXES))
    assert [place.get_xlabel() for place in canvas.axes] == ["rounds"] * 3 + ["bits"] * 3
    legends = [place.get_legend() for place in canvas.axes]
    assert [legend is not None for legend in legends] == [False] * 3 + [True] * 3
    assert legends[3].get_texts()[0].get_text() == "EF21, Theorem 1, γ = 0.04"


def test_a_panel_without_a_legend_has_none():
    canvas = draw(Figure("f", [lines("a"), lines("b", legend=False)], {"rounds": AXES["rounds"]}))
    assert [place.get_legend() is not None for place in canvas.axes] == [True, False]


def test_zero_rounds_and_infinities_leave_gaps():
    curve = Curve("x", {"rounds": np.array([0.0, 1.0, 2.0])}, np.array([1.0, np.inf, 0.5]))
    canvas = draw(Figure("f", [Lines("", [curve], Axis("y", log=True))], {"rounds": AXES["rounds"]}))
    x, y = canvas.axes[0].lines[0].get_data()
    np.testing.assert_array_equal(np.isnan(x), [True, False, False])
    np.testing.assert_array_equal(np.isnan(y), [False, True, False])


def test_bars_and_patterns_are_drawn():
    panels = [
        Bars("b", ["x", "y"], {"s": [1.0, 2.0], "t": [2.0, 1.0]}, Axis("count", log=True)),
        Heatmap("pattern", np.eye(3, dtype=bool), "client", "feature"),
        Heatmap("values", np.eye(3), "client", "feature", "share"),
    ]
    canvas = draw(Figure("f", panels))
    assert len(canvas.axes[0].patches) == 4
    assert canvas.axes[1].images[0].get_array().shape == (3, 3)
    assert len(canvas.axes) == 4  # the values have a colour bar


def test_redrawing_gives_the_same_bytes(tmp_path):
    figure = Figure("figure-2", [lines("a"), lines("b")], AXES)
    first = [path.read_bytes() for path in save(figure, tmp_path / "1")]
    assert first == [path.read_bytes() for path in save(figure, tmp_path / "2")]


def test_a_panel_of_an_unknown_kind_is_refused():
    with pytest.raises(TypeError, match="no drawing for str"):
        draw(Figure("f", ["not a panel"]))
