"""The compiled kernels of Hessians, their pairs and quasi-Newton steps against their twins in numpy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from errorfeedback.directions.quasi_newton import Secants
from errorfeedback.problems.hessians import add_rows, diagonals, times_outer
from errorfeedback.sparsity.pairs import _number
from errorfeedback.sums import PIECE, add_multiples, dot, products

SIZES = [(1, 1, 1), (3, 7, 2), (5, 40, 9)]
"""Clients, features, rows of a client."""


def blocks(n, d, m, fill=0.5):
    """The rows of n clients, each with at least one entry."""
    rng = np.random.default_rng(n + d)
    A = sparse.random_array((n * m, d), density=fill, rng=rng, format="lil")
    A[np.arange(n * m), rng.integers(0, d, n * m)] = 1.5
    return [A.tocsr()[i * m : (i + 1) * m] for i in range(n)]


def triangles(matrices):
    return np.concatenate([matrix[np.triu_indices(len(matrix))] for matrix in matrices])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_hessians_are_weighted_sums_of_outer_products_on_the_owned_features(size, dtype):
    parts = blocks(*size)
    owned = [np.unique(part.indices) for part in parts]
    segments = np.concatenate([[0], np.cumsum([len(own) for own in owned])])
    own_rows = [part[:, own] for part, own in zip(parts, owned, strict=True)]
    lifted = sparse.block_diag(own_rows, format="csr").astype(dtype)
    rows = np.arange(len(parts) + 1) * size[2]
    weights = np.random.default_rng(0).random(lifted.shape[0]).astype(dtype)
    each = zip([A.toarray() for A in own_rows], np.split(weights, rows[1:-1]), strict=True)
    twin = triangles([A.T @ (w[:, None] * A) for A, w in each])
    out = np.full(len(twin), np.nan, dtype=dtype)
    add_rows(lifted.data, lifted.indices, lifted.indptr, rows, segments, weights, out)
    np.testing.assert_allclose(out, twin, rtol=0, atol=1e-13 if dtype is np.float64 else 1e-5)
    diagonal = np.full(segments[-1], np.nan, dtype=dtype)
    diagonals(lifted.data, lifted.indices, lifted.indptr, weights, diagonal)
    np.testing.assert_allclose(
        diagonal, lifted.toarray().T ** 2 @ weights, rtol=0, atol=1e-13 if dtype is np.float64 else 1e-5
    )
    factors = np.random.default_rng(1).standard_normal(segments[-1]).astype(dtype)
    scaled = twin * triangles([np.outer(f, f) for f in np.split(factors, segments[1:-1])])
    times_outer(out, factors, segments)
    np.testing.assert_allclose(out, scaled, rtol=0, atol=1e-12 if dtype is np.float64 else 1e-4)


@pytest.mark.parametrize("size", SIZES)
def test_pairs_are_numbered_row_after_row_of_the_upper_triangle(size):
    _, d, _ = size
    owned = [np.unique(part.indices) for part in blocks(*size)]
    indptr, features = np.concatenate([[0], np.cumsum([len(own) for own in owned])]), np.concatenate(owned)
    number = np.zeros((d, d), dtype=np.int64)
    number[np.triu_indices(d)] = np.arange(d * (d + 1) // 2)
    twin = triangles([number[np.ix_(own, own)] for own in owned])
    out = np.full(len(twin), -1)
    _number(indptr, features, d, out)
    assert np.array_equal(out, twin)


@pytest.mark.parametrize("length", [0, 1, 7, 1000])
def test_inner_products_are_numpys(length):
    rng = np.random.default_rng(length)
    rows, v = rng.standard_normal((4, length)), rng.standard_normal(length)
    np.testing.assert_allclose([dot(row, v) for row in rows], rows @ v, rtol=0, atol=1e-12)


@pytest.mark.parametrize("length", [0, 7, PIECE, PIECE + 3, 2 * PIECE + 1])
@pytest.mark.parametrize("count", [1, 3, 4, 9])
def test_many_inner_products_and_sums_of_multiples_are_numpys(count, length):
    rng = np.random.default_rng(length)
    rows, vectors = rng.standard_normal((count, length)), rng.standard_normal((2, length))
    np.testing.assert_allclose(products(list(rows), list(vectors)), vectors @ rows.T, rtol=0, atol=1e-10)
    shares, q = rng.standard_normal(count), vectors[0].copy()
    add_multiples(q, list(rows), shares)
    np.testing.assert_allclose(q, vectors[0] + shares @ rows, rtol=0, atol=1e-13)


@pytest.mark.parametrize("pairs", [0, 1, 2, 6])
def test_both_loops_apply_the_inverse_hessian_of_bfgs(pairs):
    """H_{k+1} = V'H_k V + s s'/s'y with V = I - y s'/s'y (Nocedal 1980), from H_0 = I."""
    rng = np.random.default_rng(pairs)
    d = 8
    s, q = rng.standard_normal((pairs, d)), rng.standard_normal(d)
    y = s @ np.diag(rng.uniform(0.5, 2.0, d))
    H = np.eye(d)
    for k in range(pairs):
        V = np.eye(d) - np.outer(y[k], s[k]) / (s[k] @ y[k])
        H = V.T @ H @ V + np.outer(s[k], s[k]) / (s[k] @ y[k])
    out = q.copy()
    known = Secants(tuple(s), tuple(y), s @ y.T, s @ s.T)
    known.forth(out, known.back(out))
    np.testing.assert_allclose(out, H @ q, rtol=0, atol=1e-11)
