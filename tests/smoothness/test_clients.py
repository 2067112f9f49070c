"""All clients' L_i by one Lanczos: the same as a dense eigenvalue each, from above."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import errorfeedback as ef
from errorfeedback.problems.base import Problem
from errorfeedback.smoothness import clients
from errorfeedback.smoothness.constants import smoothness
from errorfeedback.smoothness.spectral import rows_L_i


@pytest.fixture
def problem() -> Problem:
    """Clients with more than TOGETHER rows and features, of unequal size; one is tiny."""
    rng = np.random.default_rng(4)
    A = sparse.random_array((600, 150), density=0.3, rng=rng, format="csr")
    ids = np.repeat([0, 1, 2, 3], [70, 200, 327, 3])
    return ef.logistic(A, np.arange(600) % 2, ids)


def dense(problem: Problem) -> np.ndarray:
    k = problem.curvature()
    blocks = [k.A[lo:hi].toarray() * np.sqrt(k.weights[lo:hi, None]) for lo, hi in zip(k.rows[:-1], k.rows[1:], strict=True)]
    return np.array([np.linalg.norm(block, 2) ** 2 for block in blocks])


def test_together_equals_one_by_one_and_is_above(problem: Problem) -> None:
    norms, done = clients._lanczos_together(problem.curvature(), problem.support, clients.CLOSE)
    assert done.all()
    assert (norms >= dense(problem) * (1 - 1e-14)).all()
    assert norms == pytest.approx(dense(problem), rel=1e-5)


def test_clients_that_are_not_done_fall_back(problem: Problem) -> None:
    _, done = clients._lanczos_together(problem.curvature(), problem.support, 0.0)
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
