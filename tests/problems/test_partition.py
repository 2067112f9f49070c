"""Rows -> clients: even split after a seeded shuffle, in file order, by group id."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef


def test_a_shuffled_split_is_even_seeded_and_reports_what_it_discards():
    rows = ef.Shuffled(3, seed=1).rows(11)
    assert np.diff(rows.indptr).tolist() == [3, 3, 3]
    assert rows.discarded == 2
    assert len(set(rows.order.tolist())) == 9
    assert np.array_equal(rows.order, ef.Shuffled(3, seed=1).rows(11).order)
    assert not np.array_equal(rows.order, ef.Shuffled(3, seed=2).rows(11).order)


def test_the_problem_reports_discarded_rows():
    problem = ef.least_squares(np.ones((11, 1)), np.ones(11), ef.Shuffled(3))
    assert problem.discarded_rows == 2
    assert "2 rows discarded" in str(problem)


def test_an_int_means_equal_blocks_of_consecutive_rows():
    A, b = np.arange(1.0, 7.0)[:, None], np.arange(6.0)
    problem = ef.least_squares(A, b, clients=3)
    assert problem.A.toarray().ravel().tolist() == A.ravel().tolist()
    assert problem.rows.tolist() == [0, 2, 4, 6]


def test_groups_keep_their_names_and_rows_their_order():
    problem = ef.least_squares(np.arange(1.0, 6.0)[:, None], np.zeros(5), clients=["x", "b", "x", "a", "b"])
    assert problem.names.tolist() == ["a", "b", "x"]
    assert problem.A.toarray().ravel().tolist() == [4.0, 2.0, 5.0, 1.0, 3.0]


def test_clients_weigh_the_same_whatever_their_rows():
    """f = (1/n) sum f_i, and f_i is the mean over its own rows."""
    problem = ef.least_squares([[1.0], [1.0], [1.0]], [0.0, 0.0, 3.0], clients=[0, 0, 1])
    assert problem.value(np.zeros(1)) == pytest.approx((0 + 9) / 2)
