"""The live view: a bar, a rate and the time left, on a terminal only."""

from __future__ import annotations

import io

from rich.console import Console

from errorfeedback.cli import _progress
from errorfeedback.cli._progress import ProgressBars, one_run


def test_a_run_shows_its_round_a_bar_a_rate_and_the_time_left(monkeypatch):
    screen = io.StringIO()
    monkeypatch.setattr(_progress, "Console", lambda stderr: Console(file=screen, force_terminal=True, width=100))
    with one_run(100, True) as at:
        for t in range(0, 60, 10):
            at(t, f"loss {1 / (t + 1):.3f}")
    shown = screen.getvalue()
    for word in ("round 50 of at most 100", "━", "rounds/s", "0:00:0", "loss 0.020"):
        assert word in shown


def test_nothing_is_drawn_where_nobody_looks(monkeypatch):
    for shown, terminal in ((False, True), (True, False)):
        screen = io.StringIO()
        monkeypatch.setattr(_progress, "Console", lambda stderr, s=screen, t=terminal: Console(file=s, force_terminal=t))
        with one_run(100, shown) as at:
            at(50, "loss 1")
        assert not screen.getvalue()


def test_words_stand_below_the_bars():
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    bars = ProgressBars(True, console)
    bars.add_task("first", total=10, words="said of the first")
    bars.add_task("second", total=10)
    console.print(bars.get_renderable())
    first, second, words = screen.getvalue().splitlines()
    assert "first" in first
    assert "second" in second
    assert words == "said of the first"
