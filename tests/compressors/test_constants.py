"""alpha, omega and (A, B) of every compressor on the clients' own R^{|J_i|}: they hold, and smaller ones would not."""

from __future__ import annotations

import numpy as np
import pytest
from discovery import COMPRESSORS
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.compressors.base import Contractive, Unbiased
from errorfeedback.core import Round
from errorfeedback.sparsity.support import full_support
from errorfeedback.wire.frames import bits_per_index

DRAWS = 4000
SUPPORTS = {
    "sparse": lambda: pair(n=6, d=9, fill=0.4)[0].support,
    "dense, d > n": lambda: full_support(3, 7),
    "dense, n > d": lambda: full_support(7, 3),
    "dense, n = d": lambda: full_support(4, 4),
}


def samples(compressor, support, u):
    operator = compressor.on(support)
    return np.array([operator(u, Round(t, 5)).lifted() for t in range(DRAWS)])


def vector(support, seed=0):
    return np.random.default_rng(seed).standard_normal(support.size)


@pytest.mark.parametrize("name", SUPPORTS)
@pytest.mark.parametrize("compressor", [c for c in COMPRESSORS if isinstance(c, Contractive)], ids=str)
def test_contraction_holds_on_every_segment(compressor, name):
    support = SUPPORTS[name]()
    u = vector(support)
    error2 = np.mean([support.norms2(s - u) for s in samples(compressor, support, u)[:500]], axis=0)
    sampling = 0.1 if isinstance(compressor, ef.ContractiveRandK) else 1e-12
    assert np.all(error2 <= (1 - compressor.alpha(support)) * support.norms2(u) * (1 + sampling) + 1e-12)


@pytest.mark.parametrize("name", SUPPORTS)
@pytest.mark.parametrize("compressor", [c for c in COMPRESSORS if isinstance(c, Unbiased)], ids=str)
def test_unbiased_with_variance_omega(compressor, name):
    support = SUPPORTS[name]()
    u = vector(support)
    drawn = samples(compressor, support, u)
    spread = drawn.std(axis=0) / np.sqrt(DRAWS)
    unseen = 5 * np.abs(u) / DRAWS  # what may happen less often than once in as many draws
    assert np.all(np.abs(drawn.mean(axis=0) - u) <= 5 * spread + unseen)
    error2 = np.mean([support.norms2(s - u) for s in drawn], axis=0)
    assert np.all(error2 <= compressor.omega(support) * support.norms2(u) * 1.15 + 1e-12)


def test_terngrad_has_the_omega_of_its_worst_vector():
    """One entry just above a power of two, so that its unit is rounded up, and d - 1 of 1/(1 + sqrt d)."""
    support, d = full_support(1, 64), 64
    u = np.full(d, 1 / (1 + np.sqrt(d)))
    u[0] = 1 + 1e-9
    error2 = np.mean([support.norms2(s - u)[0] for s in samples(ef.TernGrad(), support, u)])
    assert error2 / (u @ u) == pytest.approx(ef.TernGrad().omega(support)[0], rel=0.02)


@pytest.mark.parametrize("name", SUPPORTS)
@pytest.mark.parametrize("compressor", [c for c in COMPRESSORS if isinstance(c, Unbiased)], ids=str)
def test_ab_inequality(compressor, name):
    support = SUPPORTS[name]()
    A, B = compressor.ab(support)
    for seed in range(3):
        u = vector(support, seed)
        n, mean = support.n, support.scatter(u) / support.n
        drawn = np.array([support.scatter(s) / n for s in samples(compressor, support, u)])
        variance = np.mean(np.sum((drawn - mean) ** 2, axis=1))
        bound = A * support.norms2(u).mean() - B * mean @ mean
        assert variance <= bound * 1.1 + 1e-12


@pytest.mark.parametrize(("n", "d"), [(3, 7), (3, 6), (7, 3), (6, 3), (5, 5), (8, 5)])
def test_perm_k_on_dense_clients_has_exactly_the_variance_of_its_a_and_b(n, d):
    """The AB inequality is an equality for PermK on dense clients; 10% less would be wrong."""
    support = full_support(n, d)
    A, B = ef.PermK().ab(support)
    u = vector(support) + 1.0
    mean = support.scatter(u) / n
    drawn = np.array([support.scatter(s) / n for s in samples(ef.PermK(), support, u)])
    variance = np.mean(np.sum((drawn - mean) ** 2, axis=1))
    exact = A * support.norms2(u).mean() - B * mean @ mean
    assert variance == pytest.approx(exact, rel=0.08, abs=1e-12)


def test_perm_k_has_the_published_constants():
    """Szlendak et al. 2022: A = B = 1 for d >= n, (d-1)/(n-1) for n = q d."""
    for n, d in ((3, 6), (3, 7), (4, 4)):
        assert ef.PermK().ab(full_support(n, d)) == (1.0, 1.0)
    for d, q in ((3, 2), (5, 4), (2, 9)):
        A, B = ef.PermK().ab(full_support(q * d, d))
        assert pytest.approx((d - 1) / (q * d - 1), rel=1e-14) == A
        assert pytest.approx((d - 1) / (q * d - 1), rel=1e-14) == B


@pytest.mark.parametrize(("n", "d"), [(3, 7), (5, 20), (4, 4)])
def test_perm_k_shares_the_features_out_evenly(n, d):
    support = full_support(n, d)
    for t in range(50):
        message = ef.PermK().on(support)(np.ones(support.size), Round(t, 1))
        assert sorted(support.indices[message.positions].tolist()) == list(range(d))
        per_client = np.bincount(message.positions // d, minlength=n)
        assert per_client.max() - per_client.min() <= 1 if d % n else per_client.tolist() == [d // n] * n


def test_perm_k_on_rare_features_sends_each_feature_once():
    support = SUPPORTS["sparse"]()
    for t in range(50):
        message = ef.PermK().on(support)(np.ones(support.size), Round(t, 1))
        assert sorted(support.indices[message.positions].tolist()) == list(range(support.d))
        assert np.array_equal(message.values, support.counts[support.indices[message.positions]])


def test_top_k_ties_go_to_the_lower_index():
    support = full_support(1, 6)
    u = np.array([1.0, -2.0, 2.0, 0.0, -2.0, 2.0])
    for k, kept in ((1, [1]), (2, [1, 2]), (3, [1, 2, 4]), (5, [0, 1, 2, 4, 5]), (9, [0, 1, 2, 3, 4, 5])):
        assert ef.TopK(k).on(support)(u, Round(0, 0)).positions.tolist() == kept
    assert ef.TopK(2).on(support)(np.zeros(6), Round(0, 0)).positions.tolist() == [0, 1]


@pytest.mark.parametrize("k", [1, 3])
def test_top_k_survives_nan(k):
    u = np.array([1.0, np.nan, 3.0, np.nan, 2.0, 5.0])
    positions = ef.TopK(k).on(full_support(1, 6))(u, Round(0, 0)).positions
    assert len(set(positions.tolist())) == k
    assert set(positions.tolist()) <= set(range(6))


def test_rand_k_chooses_every_subset_equally_often():
    support = full_support(2, 5)
    counts = {}
    for t in range(6000):
        chosen = tuple(ef.RandK(2).on(support)(np.ones(10), Round(t, 0)).positions[:2].tolist())
        counts[chosen] = counts.get(chosen, 0) + 1
    assert len(counts) == 10
    assert max(counts.values()) < 1.25 * 600
    assert min(counts.values()) > 0.75 * 600


def test_bits_are_values_and_indices_that_the_other_side_cannot_know():
    support = pair(n=6, d=9, fill=0.4)[0].support
    u, sizes = vector(support), support.sizes
    top = ef.TopK(2).on(support)(u, Round(0, 0))
    sent = np.minimum(2, sizes)
    index = [k * int(np.ceil(np.log2(s))) if k < s else 0 for k, s in zip(sent, sizes, strict=True)]
    head = 24 + 8  # of every client that sends something: version and check, count
    padding = sum(-bits % 8 for bits in index)
    payload = 64 * sent.sum() + sum(index)
    assert top.frames.cost(0, 64)[:2] == (6 * head + padding + payload, payload)
    assert top.frames.cost(0, 64).authors == 32 * sent.sum()
    rand = ef.RandK(2).on(support)(u, Round(0, 0))
    assert rand.frames.cost(0, 64)[:2] == (6 * head + 64 * sent.sum(), 64 * sent.sum())  # the server repeats the draw
    perm = ef.PermK().on(support)(u, Round(0, 0))
    senders = len(np.unique(np.searchsorted(support.indptr, perm.positions, side="right")))
    assert perm.frames.cost(0, 64)[:2] == (senders * head + 64 * support.d, 64 * support.d)
    whole = ef.Identity().on(support)(u, Round(0, 0))
    assert whole.frames.cost(0, 64)[:2] == (6 * head + 64 * support.size, 64 * support.size)
    assert whole.frames.cost(0, 64).authors == 32 * support.n * support.d


def test_index_bits_are_exact_at_powers_of_two():
    sizes = np.array([1, 2, 3, 4, 5, 2**20, 2**20 + 1, 2**40, 2**40 + 1])
    assert bits_per_index(sizes).tolist() == [int(s - 1).bit_length() for s in sizes]


BAD = {
    "K = 0": lambda: ef.TopK(0),
    "K = True": lambda: ef.TopK(True),
    "K = 1.5": lambda: ef.RandK(1.5),
    r"K = \(1, 0\)": lambda: ef.TopK((1, 0)),
    r"K = \[\]": lambda: ef.TopK([]),
    "K has 2 entries, but there are 3 clients": lambda: ef.TopK((1, 2)).on(full_support(3, 4)),
    "EF21 needs a compressor that is contractive": lambda: ef.EF21(ef.RandK(1)),
    "MARINA needs a compressor that is unbiased": lambda: ef.MARINA(ef.TopK(1)),
    "start = 'warm'": lambda: ef.EF21(ef.TopK(1), start="warm"),
    "p = 0": lambda: ef.MARINA(ef.RandK(1), p=0),
}


@pytest.mark.parametrize("message", BAD)
def test_impossible_configurations_are_refused_at_construction(message):
    with pytest.raises(ValueError, match=message):
        BAD[message]()
