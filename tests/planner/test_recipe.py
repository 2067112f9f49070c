"""How a model is trained: Hessians are asked for where they are known and bounded, and nowhere else; by bytes of as few
clients as will do, by time of all.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np
import pytest
from scipy import sparse

import errorfeedback as ef
from errorfeedback.planner import recipe as recipe_module
from errorfeedback.planner.recipe import few_bits

A, CLIENTS = np.random.default_rng(0).standard_normal((60, 5)), np.arange(60) % 6
CODE = np.arange(60) % 3
PROBLEMS = {
    "logistic": (ef.logistic(A, CODE > 0, CLIENTS), ef.Curvature),
    "squared": (ef.least_squares(A, CODE, CLIENTS), ef.Curvature),
    "huber": (ef.huber(A, CODE, CLIENTS), ef.Curvature),
    "squared hinge": (ef.squared_hinge(A, CODE > 0, CLIENTS), ef.Curvature),
    "poisson": (ef.poisson(A, CODE, CLIENTS), ef.LBFGS),
    "poisson, scaled": (ef.scaled(ef.poisson(A, CODE, CLIENTS)), ef.LBFGS),
    "softmax": (ef.softmax(A, CODE, CLIENTS), ef.LBFGS),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_hessians_are_for_bounded_losses_of_one_score(name):
    """A step that is refused may end where exp(z) is 1e19, and few-bit estimates would have to come back from there."""
    problem, direction = PROBLEMS[name]
    recipe = few_bits(problem, None, 1e-6)
    assert type(recipe.direction) is direction
    assert ("Hessians are out of the question" in recipe.why) is (direction is ef.LBFGS)


@pytest.mark.parametrize("name", PROBLEMS)
def test_with_l1_steps_can_end_at_0_and_all_else_is_the_same(name):
    problem, _ = PROBLEMS[name]
    smooth, kinked = (few_bits(problem, None, 1e-6, None, prox) for prox in (ef.ElasticNet(l2=0.1), ef.ElasticNet(0.1, 0.1)))
    assert kinked.downlink == replace(smooth.downlink, zeros=True)
    assert (kinked.method, kinked.stepsize, kinked.direction) == (smooth.method, smooth.stepsize, smooth.direction)
    assert "proximal" in kinked.why
    assert "proximal" not in smooth.why


def test_with_l1_hessians_of_more_than_1500_features_are_not_asked_for():
    """A step around kinks needs them added up."""
    rows, d, link = 4000, 1600, [ef.Network(1e9, 1e9, 0.05)] * 4000
    A = sparse.random_array((rows, d), density=4 / d, rng=np.random.default_rng(0), format="csr")
    A = sparse.csr_array(A + sparse.csr_array((np.ones(rows), (np.arange(rows), np.arange(rows) % d)), shape=(rows, d)))
    problem = ef.logistic(A, np.arange(rows) % 2, np.arange(rows))
    assert isinstance(few_bits(problem, link, 1e-6).direction, ef.Curvature)
    assert isinstance(few_bits(problem, link, 1e-6, None, ef.ElasticNet(0.1)).direction, ef.LBFGS)


def like_rows(n, m, d):
    """n clients with m rows of d features each."""
    rng = np.random.default_rng(0)
    return ef.logistic(rng.standard_normal((n * m, d)), rng.integers(0, 2, n * m), clients=n)


def price(n, d, clients, width, bits=4):
    """What that many clients' Hessians cost by bytes, in rounds of so many bits up and one more down."""
    return clients * (112 + width * d * (d + 1) / 2) / (n * (112 + bits * d + 50 + (bits + 1) * d))


@pytest.mark.parametrize(
    ("n", "m", "d"), [(40, 100, 35), (40, 20, 35), (300, 30, 35), (1000, 5, 35), (100, 6, 35), (300, 2, 35)]
)
def test_by_bytes_as_few_tell_as_have_five_rows_a_feature_or_as_a_round_costs(n, m, d):
    recipe = few_bits(like_rows(n, m, d), None, 1e-5)
    by_rows, by_round = ceil(5 * d / m), int(1 / price(n, d, 1, 10))
    clients = max(by_rows, by_round)
    assert clients < n
    assert price(n, d, clients, 10) < price(n, d, n, 4)
    assert recipe.direction == ef.Curvature(
        ef.Uniform(10), recipe.direction.price, 1e-5 / 10, clients=clients, believed=2.0**-20
    )
    assert recipe.direction.price == pytest.approx(price(n, d, clients, 10), rel=1e-12)
    assert f"Hessians of 10 bits an entry from {clients} of {n} clients" in recipe.why
    assert "only where progress is slow" in recipe.why


def test_all_tell_where_that_is_cheaper_and_where_time_is_what_counts():
    few_rows = few_bits(like_rows(10, 20, 35), None, 1e-5)  # nine would have five rows a feature, at 10 bits
    asked, finer = few_rows.direction, {"finer": ef.Uniform(16), "finer_price": few_rows.direction.finer_price}
    assert asked == ef.Curvature(ef.PowersOfTwo(4), asked.price, 1e-5 / 10, believed=2.0**-20, **finer)
    assert asked.finer_price == pytest.approx(price(10, 35, 10, 16), rel=1e-12)
    assert "(16 bits where those say too little)" in few_rows.why
    assert few_rows.direction.price == pytest.approx(price(10, 35, 10, 4), rel=1e-12)
    for network, coding in ((ef.Network(1e6, 1e7, 0.05), ef.Uniform(10)), (ef.Network(2e3, 5e4, 0.5), ef.PowersOfTwo(4))):
        in_time = few_bits(like_rows(40, 100, 30), [network] * 40, 1e-5)
        assert in_time.direction.clients is None
        assert in_time.direction.compressor == coding
        assert f"Hessians of {coding.bits} bits an entry, which" in in_time.why


@pytest.mark.parametrize(("latency", "bits"), [(0.0044, 4), (0.00445, 10)])
def test_by_time_hessians_are_fine_where_they_are_cheap_enough_for_every_round(latency, bits):
    """30 features: 112 + 10 x 465 bits at 1 Mbit/s are 4.76 ms, half a round of two latencies and 0.67 ms for 8 bits up."""
    recipe = few_bits(like_rows(40, 100, 30), [ef.Network(1e6, 1e6, latency)] * 40, 1e-5)
    least = recipe.method.compressor.least
    a_round = 2 * latency + (112 + least * 30 + 50 + (least + 1) * 30) / 1e6
    assert ((112 + 4650) / 1e6 / a_round <= 0.5) is (bits == 10)
    assert recipe.direction.compressor.bits == bits


@pytest.mark.parametrize(
    ("latency", "bits", "words", "believed"),
    [
        (0.0056, 8, 10, 2.0**-20),
        (0.0057, 16, 10, 2.0**-20),
        (0.0400, 16, 10, 2.0**-20),
        (0.0401, 24, 10, 2.0**-36),
        (0.0555, 24, 10, 2.0**-36),
        (0.0556, 24, 24, 2.0**-36),
    ],
)
def test_by_time_numbers_and_hessians_are_as_fine_as_cost_little_of_a_trip(latency, bits, words, believed):
    """30 features at 1 Mbit/s: 16 bits take 1.122 ms both ways, a tenth of two latencies of 5.61 ms; 24 take 1.602 ms, a
    fiftieth of two of 40.05 ms; 112 + 24 x 465 bits take 11.27 ms, a tenth of 1.632 ms and two of 55.5 ms."""
    recipe = few_bits(like_rows(40, 100, 30), [ef.Network(1e6, 1e6, latency)] * 40, 1e-5)
    assert recipe.method.compressor.least == recipe.downlink.least == bits
    assert recipe.direction.compressor == ef.Uniform(words)
    assert recipe.direction.finer == (ef.Uniform(16) if words < 16 else None)
    assert recipe.direction.believed == believed
    assert f"Hessians of {words} bits an entry, which" in recipe.why


def test_hessians_are_no_finer_than_gradients():
    """10 features: 24 bits an entry take 1.43 ms, less than a tenth of a round, and numbers come in 16 bits."""
    recipe = few_bits(like_rows(40, 100, 10), [ef.Network(1e6, 1e6, 0.008)] * 40, 1e-5)
    assert recipe.method.compressor.least == 16
    assert (112 + 24 * 55) / 1e6 < 0.1 * 2 * 0.008
    assert recipe.direction.compressor == ef.Uniform(10)


@pytest.mark.parametrize(
    ("d", "bits"), [(1, 24), (3, 24), (4, 16), (5, 16), (6, 8), (16, 8), (17, 6), (32, 6), (33, 4), (60, 4), (300, 4)]
)
def test_by_bytes_bits_are_as_many_as_make_a_round_cost_at_most_a_fifth_more(d, bits):
    """A round of b bits: 112 + b d up, 50 + (b + 1) d down. A fifth of it, or of the 640 bits of two packets' headers: 128
    bits, 4 for each of 32 features."""
    recipe = few_bits(like_rows(4, 10, d), None, 1e-5)
    assert recipe.method.compressor.least == recipe.downlink.least == bits
    costs = {b: 162 + (2 * b + 1) * d for b in (4, 6, 8, 16, 24)}
    assert max(b for b, cost in costs.items() if cost <= costs[4] + max(0.2 * costs[4], 128)) == bits
    assert f"every number in {bits} bits up" in recipe.why


@pytest.mark.parametrize(("m", "above"), [(17, True), (18, False)])
def test_by_bytes_hessians_of_fewer_than_five_rows_a_feature_are_not_asked_for(m, above):
    """Ten clients, 35 features: 175 rows. With fewer all tell of quadratics above their losses where progress is slow, in 24
    bits; by time of Hessians."""
    problem = like_rows(10, m, 35)
    recipe = few_bits(problem, None, 1e-5)
    assert recipe.direction.above is above
    assert ("quadratics above the losses of 24 bits an entry, which cost" in recipe.why) is above
    assert recipe.why.endswith("only where progress is slow, for fewest bytes")
    if above:
        expected = ef.Curvature(ef.Uniform(24), recipe.direction.price, 1e-5 / 10, believed=2.0**-36, above=True)
        assert recipe.direction == expected
        assert recipe.direction.price == pytest.approx(price(10, 35, 10, 24), rel=1e-12)
    in_time = few_bits(problem, [ef.Network(1e6, 1e7, 0.05)] * 10, 1e-5)
    assert type(in_time.direction) is ef.Curvature
    assert not in_time.direction.above


def test_a_run_that_begins_at_a_model_asks_at_once():
    problem = like_rows(300, 30, 20)
    begun = few_bits(problem, None, 1e-5, ef.Begin(np.ones(20), 0, 1.0))
    assert "at the start and where progress is slow" in begun.why
    assert begun.direction.asks(begun.direction.start(np.ones(20)), None)


@pytest.mark.parametrize(("most", "clients"), [(1e9, 20), (20 * 210, 20), (100 * 210 - 1, 20), (20 * 210 - 1, None)])
def test_those_who_tell_can_keep_what_they_tell(most, clients, monkeypatch):
    """210 pairs each: where all 100 cannot, some may."""
    monkeypatch.setattr(recipe_module, "MOST_PAIRS", most)
    direction = few_bits(like_rows(100, 5, 20), None, 1e-5).direction
    assert getattr(direction, "clients", "nobody") == ("nobody" if clients is None else clients)


def test_who_does_not_know_how_many_rows_there_are_asks_all(monkeypatch):
    problem = like_rows(300, 30, 20)
    monkeypatch.setattr(type(problem), "hessian_rows", 0)
    assert few_bits(problem, None, 1e-5).direction.clients is None


@pytest.mark.parametrize(("per_client", "chosen"), [(12, True), (24, True), (32, False)])
def test_hessians_of_many_features_come_in_every_round_or_never(per_client, chosen):
    """On a link where rounds are what counts, up to the price of a round; by bytes never."""
    n, rng = 200, np.random.default_rng(0)
    A = np.zeros((2 * n, 3000))
    for row in range(2 * n):
        A[row, rng.choice(3000, per_client // 2, replace=False)] = 1.0
    A = np.hstack([A, np.eye(2 * n, 2000)])  # more than 1,500 features
    problem = ef.logistic(A, rng.choice([-1, 1], 2 * n), clients=np.repeat(np.arange(n), 2))
    assert problem.d > recipe_module.apart.__globals__["MANY"]
    link = ef.Network(2e5, 1e7, 0.01)
    made, sizes = few_bits(problem, [link] * n, 1e-5), problem.support.sizes
    bits = made.method.compressor.least
    seconds = 2 * link.latency + (112 + bits * sizes) / link.up + (50 + (bits + 1) * sizes) / link.down
    every = seconds.max()
    dear = ((112 + 10 * sizes * (sizes + 1) / 2) / link.up).max() / every
    assert bool(dear <= 1.0) is chosen
    if chosen:
        assert made.direction == ef.Curvature(
            ef.Uniform(10), dear, 1e-5 / 10, believed=made.direction.believed, every_round=1.0
        )
        assert "in every round" in made.why
    else:
        assert made.direction == ef.LBFGS()
    assert few_bits(problem, None, 1e-5).direction == ef.LBFGS()
