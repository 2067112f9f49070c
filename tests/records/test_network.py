"""Rates and times with units; errors name the value."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.records.history import History
from errorfeedback.records.network import elapsed


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


ROWS = [
    {"round": t, "uplink_bits": 300 * (t + 1), "payload_bits": 0, "downlink_bits": 600 * (t + 1), "authors_bits": 0}
    for t in (0, 1, 4)
]


def test_a_round_lasts_as_long_as_its_slowest_client() -> None:
    """Two clients share 300 bits up as 1 : 2 and 600 down as 1 : 1; by hand: 2 x latency + up/rate + down/rate."""
    fast, slow = ef.Network(up=1000, down=1000), ef.Network(up=100, down=600, latency="100ms")
    history, up, down = History(ROWS), np.array([1.0, 2.0]), np.array([5.0, 5.0])
    last = 0.2 + 200 / 100 + 300 / 600  # the second client, on the slow link
    np.testing.assert_allclose(elapsed(history, up, down, [fast, slow]), [last, 2 * last, 5 * last])
    first = 0.2 + 100 / 100 + 300 / 600
    np.testing.assert_allclose(elapsed(history, up, down, [slow, fast]), [first, 2 * first, 5 * first])
    np.testing.assert_allclose(elapsed(history, up, down, [ef.Network(), ef.Network()]), 0.0)


def test_classes_of_clients_have_their_own_links() -> None:
    links = ef.Links.parse(["phone-*: up=1kbit/s", "up=1Mbit/s,latency=50ms"])
    assert links.of(["phone-1", "desk", 7]) == [ef.Network(up=1e3), *[ef.Network(up=1e6, latency=0.05)] * 2]
    with pytest.raises(ValueError, match="client 'desk' has no network"):
        ef.Links.parse(["phone-*: up=1kbit/s"]).of(["desk"])
    with pytest.raises(ValueError, match="given twice"):
        ef.Links.parse(["up=1kbit/s", "up=2kbit/s"])
    with pytest.raises(ValueError, match="up = 'fast'"):
        ef.Links.parse(["a: up=fast"])
