"""Generalised linear models: what is minimised, and what bad input says."""

from __future__ import annotations

import numpy as np
import pytest
from problem_pairs import pair
from scipy import sparse
from scipy.optimize import check_grad

import errorfeedback as ef


@pytest.mark.parametrize(("loss", "lam"), [("squared", 0.0), ("squared", 2.0), ("logistic", 0.0), ("logistic", 1.0)])
def test_values_and_gradients_equal_the_reference(loss, lam):
    ours, literal = pair(loss, lam=lam)
    rng = np.random.default_rng(0)
    for _ in range(5):
        x = 2 * rng.standard_normal(ours.d)
        assert ours.value(x) == pytest.approx(literal.value(x), rel=1e-13)
        np.testing.assert_allclose(ours.gradient(x), literal.gradient(x), atol=1e-13)
        grads = np.split(ours.gradients_at(x), ours.support.indptr[1:-1])
        for i, g in enumerate(grads):
            np.testing.assert_allclose(g, literal.gradient_i(i, x)[literal.clients[i].J], atol=1e-13)


def test_logistic_does_not_overflow():
    problem = ef.logistic([[1e4], [1e4]], [0, 1], clients=1)
    with np.errstate(all="raise", under="ignore"):
        assert np.isfinite(problem.value(np.array([1e3])))
        assert np.isfinite(problem.gradient(np.array([1e3]))).all()


def test_numpy_and_every_sparse_format_give_the_same_problem():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 4)) * (rng.random((6, 4)) < 0.7)
    A[:, 0] = 1.0
    x = rng.standard_normal(4)
    expected = ef.least_squares(A, np.arange(6), 3).gradients_at(x)
    formats = [sparse.csr_matrix, sparse.csc_array, sparse.coo_array, sparse.lil_matrix]
    for make in formats:
        assert np.array_equal(ef.least_squares(make(A), np.arange(6), 3).gradients_at(x), expected)


@pytest.mark.parametrize("kind", ["dense", "sparse", "one-hot", "one entry per feature", "scaled"])
def test_x_may_be_a_column_or_a_view_or_a_list(kind):
    """And have one entry per column of the data, of which some are empty."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 40)) * (rng.random((60, 40)) < {"dense": 0.9, "one entry per feature": 0.01}.get(kind, 0.2))
    A[np.arange(60), rng.integers(0, 35, 60)] = 1.0
    A[:, 37] = 0.0
    clients = 30 if kind == "one entry per feature" else 6
    problem = ef.least_squares((A != 0) * 1.0 if kind == "one-hot" else A, rng.standard_normal(60), clients)
    problem = ef.scaled(problem) if kind == "scaled" else problem
    X = rng.standard_normal((40, 3))
    plain = np.ascontiguousarray(X[:, 1])
    for x in (X[:, 1], plain[::-1][::-1], plain.tolist(), plain[problem.columns], X[problem.columns, 1:2][:, 0]):
        assert problem.value(x) == problem.value(plain)
        assert np.array_equal(problem.gradient(x), problem.gradient(plain))


def test_the_callers_matrix_is_left_alone():
    A = sparse.csr_array(([1.0, 0.0, 2.0], ([0, 0, 1], [1, 0, 0])), shape=(2, 2))
    before = A.copy()
    ef.least_squares(A, [1.0, 2.0], 2)
    assert A.nnz == before.nnz == 3
    assert np.array_equal(A.data, before.data)
    assert np.array_equal(A.indices, before.indices)


def test_stored_zeros_are_not_features():
    A = sparse.csr_array(([1.0, 0.0], [0, 1], [0, 2]), shape=(1, 2))
    assert ef.least_squares(A, [1.0], 1).d == 1


def test_duplicate_entries_are_added_up():
    A = sparse.coo_array(([1.0, 2.0], ([0, 0], [0, 0])), shape=(1, 1))
    assert ef.least_squares(A, [0.0], 1).value(np.array([1.0])) == 9.0


def test_the_intercept_is_the_last_entry():
    problem = ef.least_squares([[1.0], [2.0], [3.0], [4.0]], [3.0, 5.0, 7.0, 9.0], clients=2, intercept=True)
    assert problem.width == 2
    assert problem.value(np.array([2.0, 1.0])) == 0.0
    assert problem.support.c == 2


def test_labels_may_be_any_two_values():
    A = np.eye(4)
    x = np.arange(4.0)
    expected = ef.logistic(A, [-1, 1, 1, -1], 2).value(x)
    for labels in ([1, 2, 2, 1], ["ham", "spam", "spam", "ham"], [False, True, True, False]):
        assert ef.logistic(A, labels, 2).value(x) == expected


def test_penalty_lives_on_the_clients_own_features():
    """phi_i sits on J_i only (appendix): feature 0 is penalised once, by its one owner."""
    A = np.array([[1.0, 0.0], [0.0, 1.0]])
    problem = ef.least_squares(A, [0.0, 0.0], clients=2, regularizer=ef.NonconvexPenalty(3.0))
    assert problem.value(np.array([1.0, 0.0])) == pytest.approx((1 + 3 * 0.5) / 2)
    assert problem.support.size == 2


def test_the_penaltys_curvature_is_in_minus_half_to_two():
    x = np.linspace(-50, 50, 200_001)
    slopes = ef.NonconvexPenalty(1.0).slopes(x)
    second = np.diff(slopes) / np.diff(x)
    assert second.max() == pytest.approx(2.0, abs=1e-3)
    assert second.min() == pytest.approx(-0.5, abs=1e-3)


def test_autoencoder_gradients_are_derivatives():
    rng = np.random.default_rng(0)
    problem = ef.autoencoder(rng.standard_normal((12, 5)), clients=3, code=2)
    x = rng.standard_normal(problem.d)
    assert check_grad(problem.value, problem.gradient, x) < 1e-4
    assert problem.support.dense
    D, E = problem.split(x)
    rows = problem.data
    assert problem.value(x) == pytest.approx(np.mean(np.sum((rows @ E.T @ D.T - rows) ** 2, axis=1)))


def misplaced(column):
    """A row whose second entry says that it is in that column."""
    A = sparse.csr_array([[1.0, 2.0]])
    A.indices[1] = column
    return A


BAD = {
    "A has shape": lambda: ef.least_squares(np.ones(3), np.ones(3), 1),
    "target has shape": lambda: ef.least_squares(np.ones((3, 2)), np.ones(2), 1),
    r"A\[1, 0\] = nan": lambda: ef.least_squares([[1.0], [np.nan]], [0.0, 0.0], 1),
    "an entry in column 2; it has 2": lambda: ef.least_squares(misplaced(2), [0.0], 1),
    "an entry in column -1; it has 2": lambda: ef.least_squares(misplaced(-1), [0.0], 1),
    r"b\[0\] = inf": lambda: ef.least_squares([[1.0]], [np.inf], 1),
    r"y\[1\] is nan": lambda: ef.logistic([[1.0], [1.0]], [1.0, np.nan], 1),
    "y has 1 distinct values": lambda: ef.logistic([[1.0], [1.0]], [1, 1], 1),
    "y has 3 distinct values": lambda: ef.logistic(np.ones((3, 1)), [1, 2, 3], 1),
    "squared needs numbers": lambda: ef.least_squares([[1.0]], ["a"], 1),
    "client b owns no feature": lambda: ef.least_squares([[1.0], [0.0]], [1, 2], ["a", "b"]),
    "7 rows do not split into 2 equal clients": lambda: ef.least_squares(np.ones((7, 1)), np.ones(7), 2),
    "client 2 would have no row": lambda: ef.least_squares(np.ones((2, 1)), np.ones(2), 3),
    "there must be at least 1": lambda: ef.least_squares(np.ones((2, 1)), np.ones(2), 0),
    "client ids have shape": lambda: ef.least_squares(np.ones((2, 1)), np.ones(2), [0, 1, 2]),
    "client id nan": lambda: ef.least_squares(np.ones((2, 1)), np.ones(2), [0.0, np.nan]),
    "lam = -1": lambda: ef.NonconvexPenalty(-1),
    "code = 9": lambda: ef.autoencoder(np.ones((2, 3)), 1, code=9),
    "x has shape": lambda: ef.least_squares(np.ones((2, 1)), np.ones(2), 1).value(np.ones(3)),
    "no global smoothness": lambda: ef.analyse(ef.autoencoder(np.ones((2, 3)), 1, code=1)).L,
}


@pytest.mark.parametrize("message", BAD)
def test_bad_input_names_the_value_and_the_rule(message):
    with pytest.raises(ValueError, match=message):
        BAD[message]()
