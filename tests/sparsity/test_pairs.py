"""Pairs of features: every client owns those of its own features, numbered row after row of the upper triangle."""

from __future__ import annotations

import numpy as np
import pytest
from problem_pairs import pair

from errorfeedback.sparsity.pairs import _number, pairs_of, symmetric


@pytest.mark.parametrize("fill", [0.1, 0.5, 1.0])
def test_pairs_are_numbered_as_numpy_numbers_the_upper_triangle(fill):
    support = pair(n=6, d=11, fill=fill)[0].support
    number = np.zeros((11, 11), dtype=int)
    number[np.triu_indices(11)] = np.arange(66)
    pairs = pairs_of(support)
    assert pairs.d == 66
    for i in range(support.n):
        J = support.indices[support.indptr[i] : support.indptr[i + 1]]
        expected = [number[j, k] for p, j in enumerate(J) for k in J[p:]]
        assert pairs.indices[pairs.indptr[i] : pairs.indptr[i + 1]].tolist() == expected


def test_the_sum_of_matrices_is_the_scatter_of_their_triangles():
    support, rng = pair(n=6, d=11, fill=0.4)[0].support, np.random.default_rng(0)
    pairs, total, lifted = pairs_of(support), np.zeros((11, 11)), []
    for i in range(support.n):
        J = support.indices[support.indptr[i] : support.indptr[i + 1]]
        B = rng.standard_normal((len(J), len(J)))
        total[np.ix_(J, J)] += B + B.T
        lifted.append((B + B.T)[np.triu_indices(len(J))])
    np.testing.assert_allclose(symmetric(pairs.scatter(np.concatenate(lifted)), 11), total, atol=1e-14)


def test_a_shard_has_the_pairs_of_its_clients():
    support = pair(n=6, d=11, fill=0.4)[0].support
    whole, part = pairs_of(support), pairs_of(support.shard(2, 5))
    assert np.array_equal(part.indices, whole.indices[whole.indptr[2] : whole.indptr[5]])
    assert (part.first, part.n, part.n_total, part.d) == (2, 3, 6, 66)


def test_many_features_do_not_overflow():
    d = 70_000  # d^2 has more than 32 bits
    out = np.empty(3, dtype=np.int64)
    _number(np.array([0, 2]), np.array([0, d - 1], dtype=np.int32), d, out)
    assert out.tolist() == [0, d - 1, d * (d + 1) // 2 - 1]
