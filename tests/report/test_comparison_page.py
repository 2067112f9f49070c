"""The page of a comparison stays readable with thirty methods."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from errorfeedback.planner.contest import HINDSIGHT, Contest, Entry
from errorfeedback.plots.draw import COLUMN, save
from errorfeedback.report.comparison_figures import SHOWN, best_of_each, overview, varied
from errorfeedback.report.comparison_page import comparison_page
from errorfeedback.report.drawing import Drawing
from errorfeedback.storage.history import History

MANY = 30


def run(method: int, step: str, rate: float, seed: int = 0) -> Entry:
    """A loss that falls at a rate; the second seed a little slower."""

    def history(rate: float) -> History:
        bits = dict.fromkeys(("payload_bits", "authors_bits"), 0)
        return History(
            [
                {"round": t, "f": np.exp(-rate * t), "residual2": np.exp(-2 * rate * t), "gamma": 0.5}
                | {"uplink_bits": 80 * (t + 1), "downlink_bits": 80 * (t + 1), **bits}
                for t in range(40)
            ]
        )

    name, seeds = f"method {method}", (history(rate), history(0.9 * rate))
    return Entry(f"{name}, {step}", seeds[0], 1, False, "ran all rounds", None, name, step, seeds)


@pytest.fixture(scope="module")
def contest():
    """The better step of method k reaches the goal before that of method k + 1; its other step is the worst of all."""
    good = [run(k, HINDSIGHT, 1.0 / (1 + k)) for k in range(MANY)]
    return Contest.ranked([*[run(k, "theorem", 1e-3 * (1 + k)) for k in range(MANY)], *good])


def test_the_best_run_of_every_method_in_the_order_of_the_ranking(contest):
    assert [entry.label for entry in best_of_each(contest)][:5] == [f"method {k}, {HINDSIGHT}" for k in range(5)]
    assert len(best_of_each(contest)) == MANY


def test_families_are_drawn_before_their_second_best(contest):
    """EF21 with two ways down ranks first and second, DGD third: DGD is drawn before EF21's second."""
    names = ["EF21 TopK(1), Changed down", "EF21 TopK(1)", *["DGD"] * 2, *(f"M{k}" for k in range(MANY))]
    steps = ["2^-1", "2^-1", "Automatic", "InverseL", *["2^0"] * MANY]
    entries = [
        replace(entry, entrant=name, label=f"{name}, {step}")
        for entry, name, step in zip(contest.entries, names, steps, strict=False)
    ]
    order = [entry.label for entry in varied(Contest(entries, ""))]
    families = [f"M{k}, 2^0" for k in range(len(entries) - 4)]
    few = SHOWN - 2
    assert order == [
        *("EF21 TopK(1), Changed down, 2^-1", "DGD, Automatic"),
        *families[:few],
        "EF21 TopK(1), 2^-1",
        *families[few:],
    ]


def test_a_page_draws_a_few_and_keeps_the_others_for_who_asks(contest):
    page = comparison_page("Methods", contest, {"SGD": "it needs a penalty"}, "40 rounds", "errorfeedback compare").html()
    specs = [json.loads(text) for text in re.findall(r'<script type="application/json">(.*?)</script>', page)]
    assert len(specs) == 2
    for spec in specs:
        lines = [trace for trace in spec["figure"]["data"] if trace["mode"] == "lines"]
        bands = [trace for trace in spec["figure"]["data"] if trace.get("fill")]
        assert [trace["visible"] for trace in lines] == [True] * SHOWN + ["legendonly"] * (MANY - SHOWN)
        assert [trace["legendgroup"] for trace in bands] == [trace["legendgroup"] for trace in lines]
        assert not any(trace["showlegend"] for trace in bands)
        assert all(
            len(x) == len(t["y"])
            for axis in spec["switch"].values()
            for x, t in zip(axis["x"], spec["figure"]["data"], strict=True)
        )
    assert f"All {2 * MANY} runs" in page
    assert "chosen" not in page or "Nobody could have known it before" in page
    assert "it needs a penalty" in page


def test_bands_hold_every_seed(contest):
    curve = overview(contest).panels[0].curves[0]
    low, high = curve.band
    drawn = np.isfinite(curve.y) & np.isfinite(low)
    assert (low[drawn] <= curve.y[drawn]).all()
    assert (curve.y[drawn] <= high[drawn]).all()
    assert 'fill":"toself"' in Drawing(overview(contest)).html()


def test_print_leaves_out_what_is_hidden_and_is_the_same_file_again(contest, tmp_path):
    first, second = (save(overview(contest), tmp_path / name, COLUMN) for name in "ab")
    assert [path.suffix for path in first] == [".pdf", ".png"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert first[0].stat().st_size < 60_000
