"""How the step reaches the clients: everybody goes the same way, and nothing is paid for twice."""

from __future__ import annotations

import numpy as np
import pytest
from discovery import DOWNLINKS
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.downlinks.base import Step, heard

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
