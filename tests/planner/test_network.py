"""Rates and times with units; errors name the value."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.planner.network import elapsed
from errorfeedback.storage.history import WHOLE, History


@pytest.mark.parametrize(
    ("text", "up"),
    [("1Mbit/s", 1e6), ("2.5 kbit/s", 2500), ("3MB/s", 24e6), (1000, 1000), ("1e3", 1000), ("1Gbit/s", 1e9)],
)
def test_rates(text: str | float, up: float) -> None:
    assert ef.Network(up=text).up == pytest.approx(up)


def test_a_rate_that_is_left_out_is_that_of_the_other_way_and_says_so() -> None:
    link = ef.Network(up="1Mbit/s")
    assert link.seconds(up=5e5, down=1e6) == pytest.approx(1.5)  # the download is not free
    assert str(link) == "up 1 Mbit/s, down 1 Mbit/s (not given: same as up), latency 0 ms"
    assert str(ef.Network(down="2kbit/s")) == "up 2 kbit/s (not given: same as down), down 2 kbit/s, latency 0 ms"
    assert ef.Network.parse("up=1Mbit/s") == link
    assert link.json()["down"] == 1e6
    assert ef.Links.parse(["up=1Mbit/s"]).of(["a"]) == [link]


def test_without_rates_only_the_latency_takes_time_and_that_is_said() -> None:
    assert ef.Network().seconds(up=1e9, down=1e9) == 0
    link = ef.Network(latency="10ms")
    assert link.seconds(up=1, down=1) == pytest.approx(0.02)
    assert str(link) == "rates without limit, latency 10 ms"
    assert link.json()["up"] is None
    assert str(ef.Network(up="1kbit/s", down=float("inf"))) == "up 1 kbit/s, down without limit, latency 0 ms"


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
        ("", "says nothing"),
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


def test_where_some_tell_hessians_for_all_the_slowest_may_be_one_of_them():
    """5 of 100 clients send 1,000 bits of Hessians each, in all 5,000: at 1 kbit/s that takes one of them a second."""
    row, seconds = dict.fromkeys(WHOLE, 0) | {"uplink_bits": 5000, "curvature_bits": 5000}, []
    for tellers in (5, 100, 0):
        history = History([row | {"tellers": tellers}])
        seconds.append(float(elapsed(history, np.ones(100), np.ones(100), [ef.Network(up=1e3)] * 100)[0]))
    assert seconds == pytest.approx([1.0, 0.05, 0.05])
