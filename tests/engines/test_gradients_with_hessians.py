"""Where all clients tell their Hessians, the gradients that come with them are as fine as these."""

from __future__ import annotations

import numpy as np
import pytest
from bytewise import Bytewise
from own_places import assert_same_bits

import errorfeedback as ef

RNG = np.random.default_rng(0)
PROBLEM = ef.logistic(RNG.standard_normal((40, 12)), RNG.integers(0, 2, 40), clients=8)


def run(direction, engine=None):
    return ef.solve(
        PROBLEM, ef.EF21(ef.FittedAnswer(), start="compressed"), ef.Armijo(), direction=direction,
        downlink=ef.FittedStep(), rounds=12, engine=engine, metrics=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "clients", "width"), [(4, None, 4), (8, None, 8), (10, None, 16), (24, None, 24), (24, 3, 4)]
)
def test_answers_have_as_many_bits_as_the_hessians_of_all(words, clients, width):
    """Round 0: a head of 4 bytes, a loss of 8, a unit of 16 bits and 12 values."""
    engine = Bytewise(3)
    direction = ef.Curvature(ef.Uniform(words), price=2.0 if clients is None else 0.3, clients=clients)
    x0 = None if clients is None else ef.Begin(np.full(12, 0.125), 0, 1.0)
    options = {"direction": direction, "downlink": ef.FittedStep(), "rounds": 3, "x0": x0, "metrics": False}
    method = ef.EF21(ef.FittedAnswer(), start="compressed")
    here = ef.solve(PROBLEM, method, ef.Armijo(), **options)
    there = ef.solve(PROBLEM, method, ef.Armijo(), engine=engine, **options)
    assert_same_bits(here, there)
    up, curved = (int(here.history[name][0]) for name in ("uplink_bits", "curvature_bits"))
    owned = int(ef.solve(PROBLEM, method, ef.Armijo(), rounds=0, metrics=False).history["uplink_bits"][0])
    assert curved
    assert up - curved - owned == 8 * 12 * (width - 4)


@pytest.mark.parametrize("price", [0.0, 3.0])
def test_hosts_that_are_asked_by_bytes_tell_of_quadratics_above_bit_for_bit(price):
    engine = Bytewise(3)
    direction = ef.Curvature(ef.Uniform(24), price=price, above=True, tolerance=1e-12)
    here, there = run(direction), run(direction, engine)
    assert_same_bits(here, there)
    assert here.history["curvature_bits"][-1] > 0
