"""A result, a problem, a history: one readable line, and a small table in a notebook."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.problems.base import Problem
from errorfeedback.storage.history import History


def solved(**options):
    problem = ef.synthetic(n=10, d=20, m=3, c=2)
    return ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=20, **options)


class Cells(HTMLParser):
    """The text of a table, cell by cell; every tag is closed in turn."""

    def __init__(self, html):
        super().__init__()
        self.open, self.cells = [], []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.cells.append(data)


SHOWN = {
    "least squares": lambda: ef.synthetic(n=10, d=20, m=3, c=2),
    "logistic": lambda: ef.logistic(np.eye(4), [1, -1, 1, -1], clients=2),
    "scaled": lambda: ef.scaled(ef.synthetic(n=10, d=20, m=3, c=2)),
    "auto-encoder": lambda: ef.autoencoder(np.eye(6), clients=2, code=2),
    "functions": lambda: ef.problem([lambda w: (float(w @ w), 2 * w)] * 2, [[0, 1], [1]], d=2),
    "plan": lambda: ef.inspect(ef.synthetic(n=10, d=20, m=3, c=2)).plans[0],
    "inspection": lambda: ef.inspect(ef.synthetic(n=10, d=20, m=3, c=2)),
    "result": solved,
    "result without metrics": lambda: solved(metrics=False),
    "history": lambda: solved().history,
    "short history": lambda: solved(every=10).history,
    "empty history": lambda: History([]),
}


@pytest.mark.parametrize("name", SHOWN)
def test_it_is_one_readable_line_and_a_small_table(name):
    thing = SHOWN[name]()
    line = repr(thing)
    assert "\n" not in line
    assert "array(" not in line
    assert "nan" not in line
    assert 20 < len(line) < 400
    cells = Cells(thing._repr_html_()).cells
    assert 1 <= len(cells) < 60


def test_every_problem_shows_itself_in_the_same_way():
    """A dataclass writes a __repr__ of its own, with all arrays, unless told not to."""
    found, kinds = set(), [Problem]
    while kinds:
        kind = kinds.pop()
        found.add(kind)
        kinds += kind.__subclasses__()
    assert len(found) > 3
    assert {kind for kind in found if kind.__repr__ is not Problem.__repr__ and "errorfeedback" in kind.__module__} == set()


def test_the_words_are_those_of_the_run():
    result = solved(every=10)
    f = result.history["f"]
    assert "EF21(TopK(k=1)" in repr(result)
    assert "rounds: 20" in repr(result)
    assert f"f: {f[-1]:.6g}" in repr(result)
    assert f"3 recorded rounds: round 0 -> 20, f {f[0]:.6g} -> {f[-1]:.6g}" in repr(result.history)
    cells = Cells(result._repr_html_()).cells
    assert cells[cells.index("f") + 1] == f"{f[-1]:.6g}"
    assert "f:" not in repr(solved(metrics=False))


def test_a_run_that_diverged_says_so():
    whole = dict.fromkeys(("uplink_bits", "payload_bits", "downlink_bits", "authors_bits"), 0)
    history = History([{"round": t, "f": f, **whole} for t, f in enumerate([1.0, np.inf, np.nan])])
    assert "f 1 -> nan" in repr(history)
    assert "grad_norm2" not in repr(history)


def test_a_result_draws_its_columns_and_refuses_others():
    result = solved()
    axes = result.plot().axes
    assert [place.get_ylabel() for place in axes[:3]] == ["f", "grad_norm2", "gamma"]
    drawn = axes[0].lines[0].get_xydata()
    assert np.array_equal(drawn[:, 1], result.history["f"])
    assert np.array_equal(drawn[:, 0], result.history["uplink_bits"] / 8e3 / 10)
    assert result.plot("c_t")._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="the history has no column 'loss'; it has round, f, "):
        result.plot("loss")
    assert len(solved(metrics=False).plot().axes) == 2


def test_a_long_history_shows_its_ends():
    cells = Cells(solved().history._repr_html_()).cells
    assert cells[0] == "6 of 21 recorded rounds"
    rounds = cells[7::6]
    assert rounds == ["0", "1", "2", "18", "19", "20"]
