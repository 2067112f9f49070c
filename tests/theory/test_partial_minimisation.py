"""Section 29 of docs/theory.md: own features left to their clients change neither the minimum nor what is proved, and make
the problem no harder."""

from __future__ import annotations

import numpy as np
import pytest
from own_rows_of_clients import L2, SHARED, D, N, linear
from scipy.optimize import minimize

import errorfeedback as ef
from errorfeedback.clients.own_weights import own_weights
from errorfeedback.core import Lifted, Point
from errorfeedback.sparsity.pairs import pairs_of, symmetric


def hessian(problem, x):
    pairs = pairs_of(problem.support)
    out = Lifted(np.empty(pairs.size))
    problem.hessians(Point(x), out)
    return symmetric(pairs.scatter(out), problem.d) / problem.n


def whole(rows, problem, x):
    """x with the weights that the clients have."""
    full = np.zeros(D)
    full[:SHARED] = x
    columns, weights = own_weights(problem, x)
    full[columns] = weights
    return full


@pytest.mark.parametrize("loss", ["logistic", "squared", "huber", "squared hinge"])
def test_lemma_the_minima_are_those_over_all_features(loss):
    rows = linear(loss)
    problem = ef.reduced(rows, L2)

    def F(x):
        return rows.value(x) + L2 / 2 @ x**2, rows.gradient(x) + L2 * x

    def reduced(x):
        return problem.value(x) + L2[:SHARED] / 2 @ x**2, problem.gradient(x) + L2[:SHARED] * x

    options = {"gtol": 1e-9, "ftol": 1e-15, "maxiter": 2000}
    over_all = minimize(F, np.zeros(D), jac=True, method="L-BFGS-B", options=options)
    shared = minimize(reduced, np.zeros(SHARED), jac=True, method="L-BFGS-B", options=options)
    assert shared.fun == pytest.approx(over_all.fun, rel=1e-9)
    np.testing.assert_allclose(whole(rows, problem, shared.x), over_all.x, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_lemma_it_curves_no_more_and_is_no_worse_conditioned(seed):
    """The extreme eigenvalues of a Schur complement lie between those of the matrix."""
    rows, rng = linear("logistic", seed=seed), np.random.default_rng(seed)
    problem, x = ef.reduced(rows, L2), rng.standard_normal(SHARED)
    H = hessian(rows, whole(rows, problem, x)) + np.diag(L2)
    S = hessian(problem, x) + np.diag(L2[:SHARED])
    outer, inner = np.linalg.eigvalsh(H), np.linalg.eigvalsh(S)
    assert outer[0] * (1 - 1e-6) <= inner[0]
    assert inner[-1] <= outer[-1] * (1 + 1e-6)
    assert np.linalg.eigvalsh(H[:SHARED, :SHARED] - S)[0] >= -1e-6 * outer[-1]
    assert inner[-1] / inner[0] < 0.9 * outer[-1] / outer[0], "and here it is better by something"


def test_lemma_where_features_do_not_meet_in_rows_nothing_is_gained_or_lost():
    """The tight case: the Schur complement is the block itself."""
    own = np.zeros((8, 3))
    own[[0, 1, 4, 5], 0], own[[2, 3], 1], own[[6, 7], 2] = 1.0, 2.0, 3.0  # rows with the shared feature have no other
    rows = ef.least_squares(own, np.arange(8.0), np.repeat([0, 1], 4))
    problem, x = ef.reduced(rows, 0.5), np.array([0.7])
    assert problem.columns.tolist() == [0]
    full = np.array([0.7, 0.0, 0.0])
    assert hessian(problem, x)[0, 0] == pytest.approx(hessian(rows, full)[0, 0], rel=1e-12)
    assert problem.gradient(x)[0] == pytest.approx(rows.gradient(full)[0], rel=1e-12)


@pytest.mark.parametrize("rule", [ef.RareFeatures(), ef.Weighted(), ef.Convex()], ids=str)
def test_the_theorems_hold_for_it(rule):
    """Its L, L_i and c are those of the shared features at most; certificates look at every round."""
    problem = ef.reduced(linear("logistic"), L2)
    run = ef.solve(problem, ef.EF21(ef.TopK(2)), rule, rounds=60)
    assert run.certificate.verdict == "held"
    assert run.theory.support.c == N


def test_what_is_told_is_never_below_the_loss_of_the_model_that_is_told_at_the_end():
    """Up to the rounding of its weights to 16 bits."""
    rows = linear("logistic")
    problem = ef.reduced(rows, L2)
    own = np.setdiff1d(np.arange(D), problem.columns)
    for x in np.random.default_rng(0).standard_normal((5, SHARED)):
        full = whole(rows, problem, x)
        loss = rows.value(full) + L2[own] / 2 @ full[own] ** 2
        assert problem.value(x) <= loss <= problem.value(x) * (1 + 1e-6)
