"""The fitted step takes the coarsest coding that costs at most its share of the promise."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import reference

import errorfeedback as ef
from errorfeedback.downlinks.base import Broadcast, Step
from errorfeedback.sums import Quadratic

COUNT = 20


def sent(downlink, rng, *, B=None, prox=None, dtype=np.float64):
    """A step from a random point: the one that was wanted, and what was told."""
    direction = (rng.standard_normal(COUNT) * 10.0 ** rng.uniform(-2, 1, COUNT)).astype(dtype)
    direction = direction if B is None or not np.isfinite(B).all() else np.linalg.solve(B, direction)
    x = rng.standard_normal(COUNT).astype(dtype)
    before, scratch = x.copy(), np.empty_like(x)
    step = Step(direction, 0.3, prox, scratch, True, lambda: None if B is None else believing(B))
    broadcast, _ = downlink.send(None, x, step)
    wanted = -0.3 * direction
    if prox is not None:
        wanted = before + wanted
        prox.step(wanted, 0.3)
        wanted -= before
    assert np.array_equal(x, before + step.taken)
    assert np.array_equal(broadcast.values, step.taken)
    return wanted, step.taken, broadcast.coding


def believing(B):
    return Quadratic(lambda vectors: np.array([v[:] @ B @ v[:] for v in vectors]))


def curvature(rng):
    """Valleys, along which steps are long."""
    V = np.linalg.qr(rng.standard_normal((COUNT, COUNT)))[0]
    return V @ np.diag(10.0 ** rng.uniform(-1, 1, COUNT)) @ V.T


def cost(B, wanted, values):
    e = (values - wanted).astype(np.float64)
    s = wanted.astype(np.float64)
    return (e @ B @ e) / (s @ B @ s)


@pytest.mark.parametrize(("plain", "share"), [(True, 1e-3), (True, 1e-2), (False, 0.01), (False, 0.1), (False, 0.5)])
def test_its_coding_costs_at_most_the_share_and_the_next_coarser_one_more(plain, share):
    rng, taken, edge = np.random.default_rng(0), set(), []
    downlink = ef.FittedStep(share=share)
    for _ in range(300):
        B = np.eye(COUNT) if plain else curvature(rng)
        wanted, values, coding = sent(downlink, rng, B=None if plain else B)
        place = downlink.codings.index(coding)
        taken.add(place)
        if place < len(downlink.codings) - 1:
            assert cost(B, wanted, values) <= share * (1 + 1e-9)
            edge.append(cost(B, wanted, values) / share)
        for coarser in downlink.codings[:place]:
            other, _ = coarser.rounded(wanted, np.array([COUNT]))
            assert cost(B, wanted, other) > share * (1 - 1e-9)
            edge.append(cost(B, wanted, other) / share)
    assert len(taken) >= 2
    below, above = max(e for e in edge if e <= 1), min(e for e in edge if e > 1)
    assert below > 0.9  # a share that is off by some percent would be noticed
    assert above < 1.1


def test_a_share_that_is_off_is_noticed():
    """Negative control: of 400 steps some have another coding where the share is 5% larger or smaller."""
    for wrong in (0.095, 0.105):
        runs = []
        for share in (0.1, wrong):
            rng = np.random.default_rng(1)
            runs.append([sent(ef.FittedStep(share=share), rng, B=curvature(rng))[2] for _ in range(400)])
        assert runs[0] != runs[1]


def kinked(downlink, rng, gamma=1.0, dtype=np.float64, near=1.0):
    """A step to where the model is lowest beside l1, from a point with zeros near those that are wanted; and what it
    loses of the model's fall, by the definition."""
    B, x = curvature(rng), (near * rng.standard_normal(COUNT) * (rng.random(COUNT) < 0.6)).astype(dtype)
    l1, g = rng.random(COUNT), rng.standard_normal(COUNT).astype(dtype)
    direction = (x - reference.lowest(x, g, B, l1)).astype(dtype)
    before, rough = x.copy(), ef.ElasticNet(l1)
    model = replace(believing(B), g=g)
    step = Step(direction, gamma, None, np.empty_like(x), True, lambda: model, rough)
    broadcast, _ = downlink.send(None, x, step)
    assert np.array_equal(x, before + step.taken)

    def rise(s):
        s = s.astype(np.float64)
        return g @ s + s @ B @ s / 2 + l1 @ (np.abs(before + s) - np.abs(before))

    return before, -gamma * direction, step.taken, broadcast, rise


@pytest.mark.parametrize("gamma", [1.0, 0.3])
@pytest.mark.parametrize("share", [0.01, 0.1])
def test_around_kinks_its_coding_keeps_all_but_the_share_of_the_fall(share, gamma):
    rng, edge = np.random.default_rng(0), []
    downlink = ef.FittedStep(share=share, zeros=True)
    for _ in range(150):
        before, wanted, taken, broadcast, rise = kinked(downlink, rng, gamma)
        assert rise(wanted) < 0
        place = downlink.codings.index(broadcast.coding)
        if place < len(downlink.codings) - 1:
            edge.append(1 - rise(taken) / rise(wanted))
        for coarser in downlink.codings[:place]:
            values, units = coarser.rounded(wanted, np.array([COUNT]))
            edge.append(1 - rise(coarser.landing(values, before, float(units[0]))) / rise(wanted))
            assert edge[-1] > share * (1 - 1e-9)
    below, above = max(e for e in edge if e <= share), min(e for e in edge if e > share)
    assert 0.85 * share < below <= share * (1 + 1e-9)
    assert above < 1.15 * share


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_wanted_zero_is_reached_exactly_in_every_coding(dtype):
    for least in (4, 5, 6, 7, 8, 10, 12, 16, 24):
        rng, zeros, downlink = np.random.default_rng(least), 0, ef.FittedStep(share=0.99, least=least, zeros=True)
        for _ in range(20):
            before, wanted, taken, broadcast, _ = kinked(downlink, rng, dtype=dtype)
            assert taken.dtype == dtype
            at_zero = before + wanted == 0
            assert (before + taken)[at_zero].tolist() == [0.0] * at_zero.sum()
            zeros += int((at_zero & (before != 0)).sum())
            other = before.copy()  # what a client does with what it has heard
            downlink.receive(None, other, replaced(broadcast))
            assert np.array_equal(other, before + taken)
        assert zeros > 20


def replaced(broadcast):
    """As it comes from the wire."""
    return Broadcast(broadcast.values.copy(), np.arange(COUNT), (), broadcast.coding, broadcast.unit)


def test_without_the_rule_few_wanted_zeros_are_reached():
    """Negative control."""
    missed, rng = 0, np.random.default_rng(0)
    for _ in range(20):
        before, wanted, taken, _, _ = kinked(ef.FittedStep(), rng)
        at_zero = (before + wanted == 0) & (before != 0)
        missed += int((before + taken)[at_zero].astype(bool).sum())
    assert missed > 20


def test_a_step_ends_at_0_only_where_all_of_the_way_is_in_reach_of_its_levels():
    """-1.4 would be rounded to the top level, 1, too; but who wanted to go there would have had a larger unit. And a step of
    0 in everything is none: x stays."""
    coding, x = ef.FittedStep().codings[0], np.array([1.4, 1.0, 0.98, -1.0, 0.001, 0.0])
    steps, units = coding.rounded(np.array([-1.0, -1.0, -1.0, -1.0, 0.0, 0.0]), np.array([6]))
    landed = x + coding.landing(steps, x, float(units[0]))
    assert (landed == 0).tolist() == [False, True, True, False, True, True]
    assert coding.landing(np.zeros(6), x, 0.0).tolist() == [0.0] * 6


def test_a_proximal_term_and_single_precision():
    prox = ef.ElasticNet(l1=0.1, l2=0.2)
    for dtype in (np.float64, np.float32):
        rng = np.random.default_rng(2)
        for _ in range(20):
            wanted, values, _ = sent(ef.FittedStep(), rng, prox=prox, dtype=dtype)
            assert values.dtype == dtype
            assert cost(np.eye(COUNT), wanted, values) <= 0.1 * (1 + 1e-5)


def test_from_how_many_bits_on():
    assert [c.each for c in ef.FittedStep().codings] == [4, 5, 6, 7, 8, 10, 12, 16, 24]
    assert [c.each for c in ef.FittedStep(least=9).codings] == [10, 12, 16, 24]
    rng = np.random.default_rng(0)
    assert sent(ef.FittedStep(least=16), rng)[2].each == 16


def test_a_model_that_believes_in_nothing_gets_the_finest_and_no_error():
    """A form that rounding has made negative, or NaN, is no reason to stop."""
    rng = np.random.default_rng(0)
    assert sent(ef.FittedStep(), rng, B=-np.eye(COUNT))[2].each == 24
    wanted, values, _ = sent(ef.FittedStep(), rng, B=np.full((COUNT, COUNT), np.nan))
    assert np.isfinite(values).all()
    assert wanted.any()


def test_zero_steps_cost_the_least():
    x = np.ones(COUNT)
    step = Step(np.zeros(COUNT), 1.0, None, np.empty(COUNT), True)
    broadcast, _ = ef.FittedStep().send(None, x, step)
    assert broadcast.coding.each == 4
    assert (x == 1.0).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"share": 0.0}, "share = 0.0; it must be between 0 and 1"),
        ({"share": 1.0}, "share = 1.0"),
        ({"share": np.nan}, "share = nan"),
        ({"least": 0}, "least = 0; it must be a whole number of bits from 1 to 24"),
        ({"least": 25}, "least = 25"),
        ({"least": 4.5}, "least = 4.5"),
        ({"least": True}, "least = True"),
    ],
)
def test_what_cannot_be_is_refused(options, words):
    with pytest.raises(ValueError, match=words):
        ef.FittedStep(**options)
    with pytest.raises(ValueError, match=words):
        replace(ef.FittedStep(), **options)


def test_clients_that_miss_rounds_are_refused():
    problem = ef.synthetic(n=5, d=10, m=3, c=2)
    with pytest.raises(ValueError, match=r"FittedStep tells clients what changes, and with Participating.* some miss it"):
        ef.solve(problem, ef.EF21(ef.Participating(ef.TopK(1), 0.5)), ef.Armijo(), downlink=ef.FittedStep(), rounds=1)
