"""Section 4: Z, I_j, J_i, c, r, and the lifted space."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import errorfeedback as ef
from errorfeedback.sparsity.support import Support, full_support, support_of


@st.composite
def patterns(draw):
    """A boolean (n, d) matrix, [n] x [d] without Z, in which every client and every feature occurs."""
    n, d = draw(st.integers(1, 7)), draw(st.integers(1, 9))
    pattern = np.array(draw(st.lists(st.lists(st.booleans(), min_size=d, max_size=d), min_size=n, max_size=n)))
    pattern[np.arange(max(n, d)) % n, np.arange(max(n, d)) % d] = True
    return pattern


def support(pattern):
    indptr = np.concatenate([[0], np.cumsum(pattern.sum(axis=1))])
    return Support(indptr, np.nonzero(pattern)[1], pattern.shape[1])


@given(patterns())
@settings(deadline=None)
def test_c_r_and_the_sets_are_those_of_section_4(pattern):
    s = support(pattern)
    assert s.c == pattern.sum(axis=0).max()
    assert s.r == pattern.sum(axis=1).max()
    for i in range(s.n):
        assert s.features(i).tolist() == np.flatnonzero(pattern[i]).tolist()
    for j in range(s.d):
        assert s.owners(j).tolist() == np.flatnonzero(pattern[:, j]).tolist()
    assert s.size == pattern.sum()  # n d - |Z|
    assert s.dense == pattern.all()


@given(patterns(), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_gather_is_P_and_scatter_its_transpose(pattern, seed):
    s = support(pattern)
    P = np.zeros((s.size, s.d))
    P[np.arange(s.size), s.indices] = 1
    rng = np.random.default_rng(seed)
    x, u = rng.standard_normal(s.d), rng.standard_normal(s.size)
    np.testing.assert_array_equal(s.gather(x), P @ x)
    np.testing.assert_allclose(s.scatter(u), P.T @ u, atol=1e-12)
    np.testing.assert_array_equal(P.T @ P, np.diag(s.counts))
    assert np.linalg.norm(P, 2) ** 2 == pytest.approx(s.c)


@given(patterns(), st.data())
@settings(deadline=None)
def test_a_shard_is_a_part_that_knows_the_whole(pattern, data):
    s = support(pattern)
    lo = data.draw(st.integers(0, s.n - 1))
    hi = data.draw(st.integers(lo + 1, s.n))
    part = s.shard(lo, hi)
    assert part.first == lo
    assert part.n == hi - lo
    assert part.c == s.c
    assert part.n_total == s.n
    assert np.array_equal(part.indices, s.indices[s.indptr[lo] : s.indptr[hi]])
    assert np.array_equal(part.ranks, s.ranks[s.indptr[lo] : s.indptr[hi]])
    if hi - lo > 1:  # a shard of a shard
        again = part.shard(1, hi - lo)
        assert again.first == lo + 1
        assert np.array_equal(again.ranks, s.ranks[s.indptr[lo + 1] : s.indptr[hi]])


@given(patterns(), st.integers(0, 2**32 - 1))
@settings(deadline=None)
def test_support_of_entries_finds_every_entrys_position(pattern, seed):
    rng = np.random.default_rng(seed)
    per_client = [rng.permutation(np.repeat(np.flatnonzero(row), rng.integers(1, 3))).astype(np.int32) for row in pattern]
    entries = np.concatenate([[0], np.cumsum([len(e) for e in per_client])])
    features = np.concatenate(per_client)
    s, positions = support_of(entries, features, pattern.shape[1])
    expected = support(pattern)
    assert np.array_equal(s.indptr, expected.indptr)
    assert np.array_equal(s.indices, expected.indices)
    assert np.array_equal(s.indices[positions], features)
    client = np.repeat(np.arange(s.n), np.diff(entries))
    assert np.all((s.indptr[client] <= positions) & (positions < s.indptr[client + 1]))


def test_dense_is_sparse_with_full_support():
    s = full_support(3, 4)
    assert (s.c, s.r, s.size, s.dense) == (3, 4, 12, True)


def test_features_that_no_client_has_are_dropped_and_stay_at_their_start():
    A = np.zeros((4, 6))
    A[[0, 1, 2, 3], [1, 3, 1, 4]] = 1.0, 2.0, 3.0, 4.0
    problem = ef.least_squares(A, np.ones(4), clients=2)
    assert (problem.width, problem.d, problem.dropped_features) == (6, 3, 3)
    assert "3 of 6 columns dropped" in str(problem)
    x0 = np.arange(6.0)
    result = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=50, x0=x0)
    assert len(result.x) == 6
    assert np.array_equal(result.x[[0, 2, 5]], x0[[0, 2, 5]])
    assert not np.array_equal(result.x[[1, 3, 4]], x0[[1, 3, 4]])
    assert problem.value(result.x) == result.history["f"][-1]
    compact = ef.solve(
        ef.least_squares(A[:, [1, 3, 4]], np.ones(4), 2), ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=50, x0=x0[[1, 3, 4]]
    )
    assert np.array_equal(result.x[[1, 3, 4]], compact.x)


@pytest.mark.parametrize("piece", [1, 7, 64, 10**6])
def test_norms_taken_in_pieces_are_norms(piece, monkeypatch):
    """To the last bit, and clients that are longer than a piece too."""
    monkeypatch.setattr("errorfeedback.sparsity.support.PIECE", piece)
    rng = np.random.default_rng(0)
    indptr = np.concatenate([[0], np.cumsum(rng.integers(1, 40, 30))])
    one = Support(indptr=indptr, indices=np.zeros(indptr[-1], dtype=np.int32), d=1)
    u = rng.standard_normal(one.size)
    assert np.array_equal(one.norms2(u), one.sums(u**2))
