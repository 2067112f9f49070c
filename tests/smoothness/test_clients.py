"""All clients' L_i by Lanczos: the same as a dense eigenvalue each, from above."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import errorfeedback as ef
from errorfeedback.problems.base import Problem
from errorfeedback.smoothness import clients
from errorfeedback.smoothness.constants import smoothness
from errorfeedback.smoothness.spectral_constants import rows_L_i


@pytest.fixture
def problem() -> Problem:
    """Clients with more than LARGE rows and features, of unequal size; one is tiny."""
    rng = np.random.default_rng(4)
    A = sparse.random_array((600, 150), density=0.3, rng=rng, format="csr")
    ids = np.repeat([0, 1, 2, 3], [70, 200, 327, 3])
    return ef.logistic(A, np.arange(600) % 2, ids)


def dense(problem: Problem) -> np.ndarray:
    k = problem.curvature()
    blocks = [k.A[lo:hi].toarray() * np.sqrt(k.weights[lo:hi, None]) for lo, hi in zip(k.rows[:-1], k.rows[1:], strict=True)]
    return np.array([np.linalg.norm(block, 2) ** 2 for block in blocks])


def test_lanczos_equals_a_dense_eigenvalue_and_is_above(problem: Problem) -> None:
    norms, done = clients._lanczos_norms(problem.curvature(), problem.support, clients.CLOSE)
    assert done.all()
    assert (norms >= dense(problem) * (1 - 1e-14)).all()
    assert norms == pytest.approx(dense(problem), rel=1e-5)


def test_clients_that_are_not_done_fall_back(problem: Problem) -> None:
    _, done = clients._lanczos_norms(problem.curvature(), problem.support, 0.0)
    assert not done.all()
    assert clients.client_norms(problem.curvature(), problem.support, 0.0) == pytest.approx(dense(problem), rel=1e-12)


def test_a_client_without_a_rare_feature_has_norm_0(problem: Problem) -> None:
    rare = np.zeros(problem.d, dtype=bool)
    rare[problem.support.features(1)] = True
    rare[problem.support.features(3)] = False
    norms = rows_L_i(smoothness(problem), rare)
    assert norms[3] == 0
    assert (norms[:3] > 0).all()
    assert (norms <= smoothness(problem).L_i * (1 + 1e-5)).all()


def test_power_steps_approach_the_norm_of_the_kept_features(problem: Problem) -> None:
    kept = (np.arange(problem.support.size) % 3 > 0).astype(np.float64)
    found = clients.power_steps(problem.curvature(), problem.support, kept, kept.copy(), 300)
    k = problem.curvature()
    for i in range(problem.n):
        lo, hi = problem.support.indptr[i : i + 2]
        block = k.lifted[k.rows[i] : k.rows[i + 1]][:, lo:hi].toarray() * kept[lo:hi]
        assert found[i] == pytest.approx(np.linalg.norm(block * np.sqrt(k.weights[k.rows[i]]), 2) ** 2, rel=1e-6)


@pytest.mark.parametrize("size", [1, 2, 5, 40])
def test_the_top_ritz_pair_is_lapacks(size: int) -> None:
    rng = np.random.default_rng(size)
    diagonal, off = rng.random(size) + 1, rng.random(size)
    theta, last, first = clients._top_ritz(diagonal, off)
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(off[: size - 1], 1) + np.diag(off[: size - 1], -1))
    assert theta == pytest.approx(values[-1], rel=1e-14)
    assert last == pytest.approx(abs(vectors[-1, -1]), rel=1e-9)
    assert first == pytest.approx(abs(vectors[0, -1]), rel=1e-9)
