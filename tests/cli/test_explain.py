"""`errorfeedback explain`: the weights and what they do, and the time on links, by hand."""

from __future__ import annotations

import json
from math import exp

import numpy as np
import pytest
from commands import call, plain

import errorfeedback as ef
from errorfeedback.planner.network import Links
from errorfeedback.planner.other_links import Journey
from errorfeedback.storage.history import History

BITS = ("uplink_bits", "payload_bits", "downlink_bits", "authors_bits")


def history(rounds, up, down, beside=0):
    """Rounds 0 to `rounds`, each with so many bits of all clients together; `beside`: up, from the first one on."""
    bits = [(beside + up * (t + 1), 0, down * (t + 1), 0) for t in range(rounds + 1)]
    return History([{"round": t} | dict(zip(BITS, each, strict=True)) for t, each in enumerate(bits)])


def test_the_time_on_a_link_is_latency_and_bits_of_the_slowest_client_in_every_round():
    """10 rounds: client b sends 3/4 of 400 bits and receives half of 1000."""
    journey = Journey(history(9, 400, 1000), ["a", "b"], np.array([1.0, 3.0]), np.array([640.0, 640.0]))
    cost = journey.on("slow", Links.parse(["up=100bit/s,down=1kbit/s,latency=2s"]))
    assert cost.waiting == pytest.approx(10 * 4)
    assert cost.up == pytest.approx(10 * 3)
    assert cost.down == pytest.approx(10 * 0.5)
    assert cost.seconds == pytest.approx(10 * 7.5)
    assert cost.in_full == pytest.approx(10 * (4 + 6.4 + 0.64))
    assert cost.most == "waiting"
    mixed = journey.on("mixed", Links.parse(["b: up=1kbit/s", "up=100bit/s,down=1kbit/s"]))
    assert mixed.seconds == pytest.approx(10 * max(1 + 0.5, 0.3 + 0.5))


def test_what_is_said_after_the_last_round_takes_an_exchange_of_its_own():
    """It is on the books from round 0 on, and is sent at the end: 100 bits of a, 300 of b."""
    clients = ["a", "b"], np.array([1.0, 1.0]), np.array([640.0, 640.0])
    links = Links.parse(["up=100bit/s,down=1kbit/s,latency=2s"])
    before = Journey(history(9, 400, 1000), *clients).on("slow", links)
    after = Journey(history(9, 400, 1000, beside=400), *clients, np.array([100.0, 300.0])).on("slow", links)
    assert after.seconds == pytest.approx(before.seconds + 4 + 3)
    assert (after.waiting, after.up, after.down) == pytest.approx((before.waiting + 4, before.up + 3, before.down))


def test_a_run_is_explained_in_words_and_on_a_page(tmp_path):
    rng = np.random.default_rng(5)
    colour = np.array(["red", "blue"])[rng.integers(0, 2, 200)]
    sold = np.where((colour == "red") + rng.normal(size=200) > 0.5, "yes", "no")
    lines = [f"{x:.3f},{c},{s}" for x, c, s in zip(rng.normal(size=200), colour, sold, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["size,colour,sold", *lines]))
    run = tmp_path / "run"
    assert call("train", tmp_path / "t.csv", "--target", "sold", "--clients", "4", "--out", run, "--quiet").exit_code == 0
    done = call("explain", run, "--network", "up=1kbit/s,latency=1s")
    assert done.exit_code == 0, done.output
    model = ef.load_model(run).model
    weights = dict(zip(["size", "colour=blue", "colour=red"], model.coef_[0], strict=True))
    assert f"colour=red -> yes: multiplies the odds of yes by {exp(weights['colour=red']):.3g}" in plain(done)
    assert "3 of 3 weights are not 0" in plain(done)
    assert f"bytes up per client: {round(ef.load_model(run).provenance['bytes up per client'])}" in plain(done)
    assert "on yours:" in plain(done)
    assert "on data centre:" in plain(done)
    page = (run / "explained.html").read_text(encoding="utf-8")
    assert all(word in page for word in ("What it learned", "On another link", "phone (3G)", "colour=red"))


def test_what_is_no_run_of_this_version_is_a_sentence(tmp_path):
    assert "no such folder or model file" in plain(call("explain", tmp_path / "nowhere"))
    run = tmp_path / "run"
    (tmp_path / "t.svm").write_text("1 1:1\n0 2:1\n1 1:1\n0 2:1\n")
    assert call("train", tmp_path / "t.svm", "--clients", "2", "--rounds", "3", "--out", run, "--quiet").exit_code == 0
    (run / "clients.json").write_text(json.dumps({"names": [0, 1], "up": [1.0], "down": [1.0, 2.0]}))
    assert "2 clients with 1 and 2 messages" in plain(call("explain", run))
    (run / "clients.json").unlink()
    assert "clients.json: no such file; a folder that `errorfeedback train` of this version" in plain(call("explain", run))
