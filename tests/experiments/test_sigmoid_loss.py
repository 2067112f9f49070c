"""The nonconvex loss of MARINA's experiments, and what theorems may say of it."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.experiments.sigmoid_loss import SquaredSigmoid

Z = np.linspace(-9, 9, 20_001)


@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_it_is_its_formula_and_its_constants_are_reached(label):
    loss, b, slopes, h = SquaredSigmoid(), np.full_like(Z, label), np.empty_like(Z), np.diff(Z)
    np.testing.assert_allclose(loss.values(Z, b), (1 - 1 / (1 + np.exp(-label * Z))) ** 2, rtol=1e-9)
    loss.slopes(Z, b, np.ones_like(Z), slopes)
    np.testing.assert_allclose(np.diff(loss.values(Z, b)) / h, (slopes[1:] + slopes[:-1]) / 2, atol=1e-7)
    assert 0.9999 < np.abs(np.diff(slopes) / h).max() / loss.curvature < 1.0
    assert 0.9999 < np.abs(slopes).max() / loss.steepest <= 1.0
    assert np.diff(slopes).min() < -1e-5  # not convex


def test_theorems_for_convex_functions_refuse_it():
    rng = np.random.default_rng(0)
    A, y = rng.standard_normal((30, 6)), np.sign(rng.standard_normal(30))
    problem = ef.glm(A, y, clients=3, loss=SquaredSigmoid())
    assert not ef.analyse(problem).convex
    with pytest.raises(ValueError, match="the loss or the penalty is not"):
        ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Convex(), rounds=1)
    with pytest.raises(ValueError, match="not convex"):
        ef.solve(problem, ef.DIANA(ef.RandK(1)), ef.DianaConvex(), rounds=1)
    with pytest.raises(ValueError, match="it needs Hessians"):
        ef.solve(problem, ef.NewtonCG(), ef.Constant(0.1), rounds=1)
    assert ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=200).certificate.holds
