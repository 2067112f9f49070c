"""The minima of clients' own problems, where Newton's steps lead away from them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

import errorfeedback as ef
from errorfeedback.core import Lifted, PerClient
from errorfeedback.problems.local_fits import LocalFits


def test_fits_get_over_the_kinks_of_long_rows():
    """Next to a kink the loss hardly bends, and a Newton step is refused however often it is halved."""
    rng = np.random.default_rng(0)
    A, clients = rng.standard_normal((60, 4)) * np.tile([1.0, 300.0], 30)[:, None], np.repeat(np.arange(3), 20)
    rows = ef.logistic(A, rng.choice([-1, 1], 60), clients)
    fits, penalty = LocalFits(rows), Lifted(np.full(12, 0.05))
    w, z = fits.minima(rows.shares, penalty, Lifted(np.zeros(12)), 300, PerClient(np.full(3, 1e-12)), np.ones(3, dtype=bool))
    values = fits.values(rows.shares, penalty, w, z)
    for i in range(3):
        mine = clients == i

        def value(u, mine=mine):
            return np.logaddexp(0, -rows.target[mine] * (A[mine] @ u)).mean() + 0.05 / 2 * u @ u

        starts = [np.zeros(4), w[4 * i : 4 * i + 4]]
        least = min(minimize(value, u, method="Nelder-Mead", options={"maxiter": 4000, "xatol": 1e-9}).fun for u in starts)
        assert values[i] <= least * (1 + 1e-7)


def test_what_is_predicted_beside_counts():
    rng = np.random.default_rng(1)
    A, b = rng.standard_normal((30, 3)), rng.standard_normal(30)
    rows, beside = ef.least_squares(A, b, clients=2), rng.standard_normal(30)
    everybody, enough = np.ones(2, dtype=bool), PerClient(np.full(2, 1e-14))
    w, z = LocalFits(rows).minima(rows.shares, Lifted(np.full(6, 0.3)), Lifted(np.zeros(6)), 20, enough, everybody, beside)
    for i, mine in enumerate((slice(0, 15), slice(15, 30))):
        H = 2 * A[mine].T @ A[mine] / 15 + 0.3 * np.eye(3)
        expected = np.linalg.solve(H, 2 * A[mine].T @ (b - beside)[mine] / 15)
        np.testing.assert_allclose(w[3 * i : 3 * i + 3], expected, rtol=1e-6)
        np.testing.assert_allclose(z[mine], A[mine] @ expected + beside[mine], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("l2", [1e-3, 1e-5, 1e-7])
def test_fits_of_a_squared_hinge_get_there_though_few_rows_curve_it(l2):
    """With hardly a penalty most rows are beyond the margin, and whole Newton steps lead where others are not."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((100, 30))
    y = np.where(A @ rng.standard_normal(30) + rng.standard_normal(100) > 0, 1, -1)
    rows = ef.squared_hinge(A, y, clients=1)
    fits, penalty = LocalFits(rows), Lifted(np.full(30, l2))
    start, enough, who = Lifted(np.zeros(30)), PerClient(np.full(1, 1e-10)), np.ones(1, dtype=bool)
    w, z = fits.minima(rows.shares, penalty, start, 1000, enough, who)

    def value(u):
        left = np.maximum(0.0, 1 - y * (A @ u))
        return (left**2).mean() + l2 / 2 * u @ u, -2 * A.T @ (y * left) / 100 + l2 * u

    options = {"maxiter": 20_000, "maxfun": 100_000, "ftol": 0.0, "gtol": 1e-16, "maxcor": 50}
    least = min(minimize(value, u, jac=True, method="L-BFGS-B", options=options).fun for u in (np.zeros(30), w))
    assert fits.values(rows.shares, penalty, w, z)[0] <= least + 1e-8


def test_steps_of_the_size_of_rounding_are_not_halved(monkeypatch):
    """At a minimum values differ by their rounding alone, and a step that raises one by that is as good as any."""
    rng = np.random.default_rng(2)
    A, clients = rng.standard_normal((3000, 5)), np.repeat(np.arange(300), 10)
    rows = ef.logistic(A, rng.choice([-1, 1], 3000), clients)
    fits, penalty, everybody = LocalFits(rows), Lifted(np.full(1500, 0.3)), np.ones(300, dtype=bool)
    w, _ = fits.minima(rows.shares, penalty, Lifted(np.zeros(1500)), 30, PerClient(np.full(300, 1e-14)), everybody)
    asked, values = [], LocalFits.values
    monkeypatch.setattr(LocalFits, "values", lambda self, *given: asked.append(0) or values(self, *given))
    fits.minima(rows.shares, penalty, w, 5, PerClient(np.zeros(300)), everybody)
    assert len(asked) <= 1 + 5
