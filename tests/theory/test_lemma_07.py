"""Lemma 7. Let u_1, ..., u_n in R^d. Let us write u_i = (u_i1, ..., u_id) and define sets S_j = {i : u_ij != 0}. Then
||sum_i u_i||^2 <= (max_j |S_j|) sum_i ||u_i||^2.

No problem is involved, so whole numbers decide it exactly; the library's part is that a `Support` made of the nonzero
pattern has c = max_j |S_j|, and that its scatter is the sum.
"""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from theory.instances import THEORY

from errorfeedback.sparsity.support import Support

matrices = arrays(
    np.int64,
    st.tuples(st.integers(1, 7), st.integers(1, 6)),
    elements=st.integers(-9, 9) | st.just(0),
)


def holds(u: np.ndarray, most: float) -> bool:
    return bool((u.sum(axis=0) ** 2).sum() <= most * (u**2).sum())


def most_shared(u: np.ndarray) -> int:
    """max_j |S_j|."""
    return int((u != 0).sum(axis=0).max())


def support_of_nonzeros(u: np.ndarray) -> Support:
    indptr = np.concatenate([[0], np.cumsum((u != 0).sum(axis=1))])
    return Support(indptr=indptr, indices=np.nonzero(u)[1], d=u.shape[1])


@THEORY
@given(matrices)
def test_lemma_7_on_whole_numbers(u):
    assert holds(u, most_shared(u))
    assert holds(np.abs(u), most_shared(u))


@THEORY
@given(matrices)
def test_lemma_7_in_the_lifted_space(u):
    assume(u.any())
    support = support_of_nonzeros(u)
    assert support.c == most_shared(u)
    assert np.array_equal(support.scatter(u[u != 0].astype(float)), u.sum(axis=0))


@THEORY
@given(matrices)
def test_lemma_7_tight_equal_entries_in_the_most_shared_coordinate_and_one_percent_less_is_refuted(u):
    assume(u.any())
    j = int(np.argmax((u != 0).sum(axis=0)))
    tight = np.zeros_like(u)
    tight[u[:, j] != 0, j] = 3
    most = most_shared(u)
    assert most == most_shared(tight)
    assert (tight.sum(axis=0) ** 2).sum() == most * (tight**2).sum()
    assert not holds(tight, 0.99 * most), "negative control"


def test_lemma_7_tight_orthogonality_is_the_case_of_one():
    u = np.diag([3, -1, 4, 1])
    assert (u.sum(axis=0) ** 2).sum() == 1 * (u**2).sum()


def test_negative_control_the_average_of_S_j_is_not_enough():
    u = np.array([[1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]])
    average = (u != 0).sum(axis=0).mean()
    assert holds(u, most_shared(u))
    assert not holds(np.array(u) * np.array([1, 0, 0, 0]), average)
