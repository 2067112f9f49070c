"""Rates and times with units; errors name the value."""

from __future__ import annotations

import pytest

import errorfeedback as ef


@pytest.mark.parametrize(
    ("text", "up"),
    [("1Mbit/s", 1e6), ("2.5 kbit/s", 2500), ("3MB/s", 24e6), (1000, 1000), ("1e3", 1000), ("1Gbit/s", 1e9)],
)
def test_rates(text: str | float, up: float) -> None:
    assert ef.Network(up=text).up == pytest.approx(up)


def test_what_is_left_out_costs_nothing() -> None:
    assert ef.Network().seconds(up=1e9, down=1e9) == 0
    assert ef.Network(latency="10ms").seconds(up=1, down=1) == pytest.approx(0.02)
    assert ef.Network(up="1Mbit/s").seconds(up=5e5, down=1e9) == pytest.approx(0.5)


def test_parse() -> None:
    link = ef.Network.parse("up=1Mbit/s, down=10Mbit/s,latency=50ms")
    assert link == ef.Network("1Mbit/s", "10Mbit/s", "50ms")
    assert str(link) == "up 1 Mbit/s, down 10 Mbit/s, latency 50 ms"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("up=fast", "up = 'fast'"),
        ("up=1mph", "up = '1mph'"),
        ("up=0bit/s", "above 0"),
        ("up=-1Mbit/s", "up = '-1Mbit/s'"),
        ("up=1e999", "up = '1e999'"),
        ("speed=1Mbit/s", "'speed=1Mbit/s' is not one of"),
        ("up", "'up' is not one of"),
        ("up=1kbit/s,up=2kbit/s", "given twice"),
        ("latency=5h", "latency = '5h'"),
    ],
)
def test_errors_name_the_value(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ef.Network.parse(text)
