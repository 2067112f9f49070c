"""The first x, where it is not zero: as a step of few bits where that is all of it, otherwise whole; and what is counted."""

from __future__ import annotations

import numpy as np
import pytest
from bytewise import Bytewise
from own_places import assert_same_bits

import errorfeedback as ef
from errorfeedback.wire.codebook import MENU

PROBLEM = ef.synthetic(n=9, d=12, m=4, c=5)
ALL = np.array([12])
X0 = np.random.default_rng(0).standard_normal(12)


def run(x0, engine=None, rounds=6, **options):
    return ef.solve(
        PROBLEM, ef.EF21(ef.FittedAnswer(), start="compressed"), options.pop("rule", ef.Armijo()), direction=ef.LBFGS(),
        downlink=ef.FittedStep(), rounds=rounds, x0=x0, engine=engine, metrics=False, **options,
    )  # fmt: skip


@pytest.mark.parametrize("coding", [*MENU, None], ids=lambda coding: "whole" if coding is None else f"{coding.each} bits")
def test_clients_find_it_and_every_byte_is_counted(coding):
    x0 = X0 if coding is None else coding.rounded(coding.rounded(X0, ALL)[0], ALL)[0]
    engine = Bytewise(3)
    here, there = run(x0), run(x0, engine)
    assert_same_bits(here, there)
    down = here.history["downlink_bits"]
    assert down[-1] == 8 * engine.down
    sizes, fitting = PROBLEM.support.sizes, (each for each in MENU if np.array_equal(each.rounded(x0, ALL)[0], x0))
    bits = (
        64 * sizes if coding is None else 16 + next(fitting).each * sizes
    )  # a unit and the values, in the coarsest of them
    assert down[0] == (-(-(32 + 2 + bits) // 8) * 8).sum()  # a head with a count, and a command


def test_bits_that_clients_sent_for_it_are_counted_and_progress_is_counted_from_elsewhere():
    stop = [ef.EstimatedGap(1e-4)]
    plain = run(X0, stop=stop, rounds=60)
    f0 = float(plain.history["f"][0])
    asked = run(ef.Begin(X0, bits=1000, since=1e3 * f0), stop=stop, rounds=60)
    up = [each.history["uplink_bits"][0] for each in (asked, plain)]
    assert up[0] - up[1] == 1000
    assert asked.rounds < plain.rounds
    assert np.array_equal(asked.history["f"], plain.history["f"][: asked.rounds + 1])


def test_the_first_step_counts_on_a_little_of_what_the_start_is_better_by():
    since = 3.0 * PROBLEM.value(X0)
    polyak = 0.25 * 0.03 * (since - PROBLEM.value(X0))
    first = run(X0, rule=ef.Armijo(since=since), rounds=1)
    g = first.history["gamma"][0]
    whole = run(X0, rounds=1).history["gamma"][0]
    above = PROBLEM.value(X0) - PROBLEM.lower_bound
    assert polyak < 0.25 * above
    assert g / whole == pytest.approx(polyak / (0.25 * above))
    assert run(X0, rule=ef.Armijo(since=0.5 * PROBLEM.value(X0)), rounds=1).history["gamma"][0] == whole
    with pytest.raises(ValueError, match="since = inf; a loss must be finite"):
        ef.Armijo(since=np.inf)
