"""How the step reaches the clients: everybody goes the same way, and nothing is paid for twice."""

from __future__ import annotations

import numpy as np
import pytest
from discovery import DOWNLINKS
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.compressors.few_bits import kept_share
from errorfeedback.compressors.rounded import coding_of
from errorfeedback.downlinks.base import Broadcast, Step, heard
from errorfeedback.wire.coding import FULL

PROBLEM = pair("logistic", n=7, d=40, fill=0.2)[0]


@pytest.mark.parametrize("downlink", DOWNLINKS, ids=str)
def test_clients_go_where_the_server_goes(downlink):
    """On the features that a shard has, after any number of steps: from nothing but what it was told."""
    shard, rng = PROBLEM.support.shard(2, 5), np.random.default_rng(0)
    owned = np.unique(shard.indices)
    x = rng.standard_normal(40)
    mine = np.where(np.isin(np.arange(40), owned), x, np.nan)
    server, client = downlink.start(x), downlink.start(mine)
    for _ in range(20):
        step = Step(rng.standard_normal(40) * (rng.random(40) < 0.2), 0.3, None, np.empty(40), asked=True)
        before = x.copy()
        told, server = downlink.send(server, x, step)
        np.testing.assert_allclose(before + step.taken, x, rtol=1e-12)
        client = downlink.receive(client, mine, heard(told.on(shard), told.numbers, told.coding))
        assert np.array_equal(mine[owned], x[owned])


def test_changed_tells_what_changed_and_all_where_that_is_shorter():
    x, support = np.zeros(40), PROBLEM.support
    step = Step(np.eye(40)[3], 1.0, None, np.empty(40), asked=False)
    told, _ = ef.Changed().send(None, x, step)
    assert told.features.tolist() == [3]
    counts = told.frames(support).counts
    for i in range(support.n):
        assert counts[i] == int(3 in support.features(i)) or counts[i] == support.sizes[i] == 1
    x = np.zeros(40)
    told, _ = ef.Changed().send(None, x, Step(np.ones(40), 1.0, None, np.empty(40), asked=False))
    assert np.array_equal(told.frames(support).counts, support.sizes)
    assert not told.frames(support).index_bits.any()


def test_a_run_with_rare_features_pays_less_down_for_the_same_points():
    problem = ef.synthetic(n=30, d=300, m=3, c=1)
    runs = [
        ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Constant(0.1), rounds=50, every=50, downlink=down)
        for down in (ef.Whole(), ef.Changed())
    ]
    assert np.array_equal(runs[0].x, runs[1].x)
    assert runs[1].history["downlink_bits"][-1] < runs[0].history["downlink_bits"][-1]


def test_a_compressed_direction_gets_there_with_a_fraction_of_the_traffic():
    problem = ef.synthetic(n=20, d=60, m=3, c=4)
    whole, two_way = (
        ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Automatic(), rounds=1500, every=1500, downlink=down)
        for down in (ef.Whole(), ef.Compressed(ef.TopK(10)))
    )
    gap = [run.history["f"][-1] for run in (whole, two_way)]
    assert gap[1] < gap[0] + 5e-3 * (whole.history["f"][0] - gap[0])
    assert two_way.history["downlink_bits"][-1] < 0.6 * whole.history["downlink_bits"][-1]


def test_no_theorem_speaks_about_a_compressed_downlink():
    problem = ef.synthetic(n=10, d=20, m=3, c=2)
    runs = [
        ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=20, downlink=down)
        for down in (ef.Changed(), ef.Compressed(ef.TopK(2)))
    ]
    assert [run.certificate.verdict for run in runs] == ["held", "not applicable"]


def test_what_does_not_fit_is_refused():
    problem = ef.synthetic(n=10, d=20, m=3, c=2)
    options = {"rounds": 1, "downlink": ef.Compressed(ef.TopK(2))}
    with pytest.raises(ValueError, match="they know nothing of ElasticNet"):
        ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Constant(0.1), prox=ef.ElasticNet(l1=0.1), **options)
    with pytest.raises(ValueError, match=r"some miss it; use ef\.Whole"):
        ef.solve(problem, ef.EF21(ef.Participating(ef.TopK(1), 0.5)), ef.Constant(0.1), **options)
    with pytest.raises(ValueError, match="a downlink is compressed by TopK or ExactOnCommon"):
        ef.Compressed(ef.Identity())


LEVELS = [ef.Uniform(8), ef.Uniform(3), ef.PowersOfTwo(4), ef.SmallFloat(4, 3), 16, 30]


@pytest.mark.parametrize("prox", [None, ef.ElasticNet(l1=0.1, l2=0.2)], ids=["plain", "prox"])
@pytest.mark.parametrize("values", LEVELS, ids=str)
def test_the_rounded_step_is_the_wanted_one_to_a_share_of_it(values, prox):
    """||taken - wanted||^2 <= (1 - alpha) ||wanted||^2 on R^d, and x moves by what was taken, to the last bit."""
    rng = np.random.default_rng(0)
    alpha = kept_share(coding_of(values), np.array([40]))[0]
    for _ in range(20):
        x, direction = rng.standard_normal((2, 40)) * np.exp(rng.standard_normal((2, 40)))
        wanted = Step(direction, 0.3, prox, np.empty(40), asked=False).vector(x).copy()
        step, before = Step(direction, 0.3, prox, np.empty(40), asked=True), x.copy()
        ef.RoundedStep(values).send(None, x, step)
        assert np.sum((step.taken - wanted) ** 2) <= (1 - alpha) * np.sum(wanted**2) * (1 + 1e-12)
        assert np.array_equal(x, before + step.taken)
    assert prox is None or not np.array_equal(wanted, -0.3 * direction)


def test_a_rounded_step_costs_a_byte_for_a_feature_and_two_for_the_unit():
    """Every round in which x moves: 4 bytes of head, a unit, and |J_i| levels."""
    problem = PROBLEM
    run = ef.solve(problem, ef.DGD(), ef.Constant(0.1), rounds=5, downlink=ef.RoundedStep(ef.Uniform(8)))
    down = 8 * (problem.n * (4 + 2) + problem.support.size)
    assert run.history["downlink_bits"].tolist() == [t * down for t in range(6)]


@pytest.mark.parametrize("values", [ef.Uniform(8), ef.SmallFloat(4, 3), 20], ids=str)
def test_rounded_steps_get_all_the_way(values):
    """What a step is off by is off at the next point, where the gradient sees it: no floor."""
    problem = ef.synthetic(n=10, d=20, m=4, c=3)
    run = ef.solve(problem, ef.EF21(ef.PowersOfTwo(4)), ef.Best(), rounds=4000, every=1000, downlink=ef.RoundedStep(values))
    whole = ef.solve(problem, ef.EF21(ef.PowersOfTwo(4)), ef.Best(), rounds=4000, every=1000)
    assert run.history["grad_norm2"][-1] < 10 * whole.history["grad_norm2"][-1] + 1e-25
    assert run.certificate.verdict == "not applicable"


@pytest.mark.parametrize("downlink", DOWNLINKS, ids=str)
def test_the_first_x_is_told_where_it_is_not_zero(downlink):
    """Nothing from zero; from a point with few features that are not, those."""
    options = {"rounds": 0, "downlink": downlink}
    support, few = PROBLEM.support, np.zeros(40)
    zero = ef.solve(PROBLEM, ef.EF21(ef.TopK(1)), ef.Constant(0.1), **options)
    assert zero.history["downlink_bits"].tolist() == [0]
    few[[3, 17]] = 1.0, -2.0
    some = ef.solve(PROBLEM, ef.EF21(ef.TopK(1)), ef.Constant(0.1), x0=few, **options)
    whole = ef.solve(PROBLEM, ef.EF21(ef.TopK(1)), ef.Constant(0.1), x0=np.ones(40), **options)
    bits = Broadcast(few, np.array([3, 17])).frames(support).cost(0, 64).bits
    if downlink.codings == (FULL,):
        assert some.history["downlink_bits"][0] == bits < whole.history["downlink_bits"][0]
        assert whole.history["downlink_bits"][0] == 64 * support.size + 32 * support.n
    else:  # as a step of few bits where that is shorter (tests/engines/test_first_x.py)
        assert some.history["downlink_bits"][0] <= bits
        assert whole.history["downlink_bits"][0] <= 64 * support.size + 32 * support.n
