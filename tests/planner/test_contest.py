"""Who gets there, at what price, and who stands first."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.planner.contest import Contest, Contestant, Entry, Limit, hold
from errorfeedback.storage.history import History


def entry(label: str, losses: list[float], *, bits: int = 80, hears_loss: bool = False, pace: float | None = None) -> Entry:
    """A run of one client that sends and receives `bits` in every round, which takes `pace` seconds."""
    rows = [
        {
            "round": t,
            "f": f,
            "uplink_bits": bits * (t + 1),
            "downlink_bits": bits * (t + 1),
            "payload_bits": 0,
            "authors_bits": 0,
        }
        for t, f in enumerate(losses)
    ]
    seconds = None if pace is None else pace * np.arange(1.0, len(losses) + 1)
    return Entry(label, History(rows), 1, hears_loss, "ran all rounds", seconds)


def test_a_method_is_there_when_it_stays_there() -> None:
    """EF14 passes the level and leaves it again; a rule that hears the loss would return the best point."""
    losses = [1.0, 0.4, 0.2, 0.6]
    assert entry("EF14", losses).there(0.5) is None
    assert entry("Automatic", losses, hears_loss=True).there(0.5) == 1
    assert entry("EF14", [1.0, 0.4, 0.6, 0.3]).there(0.5) == 3
    assert entry("diverged", [1.0, 0.4, np.nan]).there(0.5) is None


def test_final_and_lowest_loss_are_two_numbers() -> None:
    found = entry("EF14", [1.0, 0.679, 1.0006])
    assert (found.final, found.lowest) == (1.0006, 0.679)


def test_bytes_decide_without_a_network_and_time_with_one() -> None:
    slow, fast = [1.0, 0.5, 0.0], [1.0, 0.0, 0.0]
    small = [entry("small", slow, bits=8), entry("large", fast, bits=800)]
    assert Contest.ranked(small).winner.label == "small"
    timed = [entry("small", slow, bits=8, pace=1.0), entry("large", fast, bits=800, pace=1.0)]
    found = Contest.ranked(timed, "a link")
    assert found.winner.label == "large"
    assert found.verdict().startswith(
        "Winner by time on the network: large needs 2 s and 400 B per client (200 B up, 200 B down)"
    )
    assert "The next, small, needs 1.5 times as much." in found.verdict()


def test_who_never_gets_there_stands_last_by_its_lowest_loss() -> None:
    runs = [entry("lost", [1.0, 1.0]), entry("near", [1.0, 0.1]), entry("first", [1.0, 0.0])]
    assert [e.label for e in Contest.ranked(runs).entries] == ["first", "near", "lost"]
    assert "Nobody else gets there." in Contest.ranked(runs).verdict()


def test_limits_are_checked() -> None:
    with pytest.raises(ValueError, match="seconds = 0"):
        Limit(seconds=0)
    with pytest.raises(ValueError, match="needs a network"):
        Limit(seconds=1.0)


def test_the_price_holds_what_is_sent_before_round_1() -> None:
    """Scaling and MARINA's first upload are paid before the first step."""
    problem = ef.scaled(ef.synthetic(n=4, d=10, m=3, c=2))
    (run,) = hold(problem, [Contestant("M", ef.MARINA(ef.RandK(1)), ef.MarinaAB())], rounds=3)
    up, down = (bits / 8 / problem.n for bits in problem.setup_bits)
    sizes = 8 * problem.support.sizes.mean()
    assert run.up[0] > up + sizes
    assert run.down[0] == pytest.approx(down)  # the first x is zero
    assert run.cost(inf) == run.total[0]
