"""The iterative path (d > 200): L, L_plus, L_pm agree with dense eigenvalues to 1e-9 and from above, with and without a gap;
where 300 steps are not enough the value is still from above, and `how` says how far it may be. Everything is the same to
the last bit when computed twice, on a second problem object, and in another process.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest
from theory.instances import Dense, dense, largest

from errorfeedback.smoothness import spectrum
from errorfeedback.smoothness.constants import Smoothness, smoothness
from errorfeedback.smoothness.spectrum import largest_eigenvalue


def from_above(value: float, truth: float, within: float = 1e-9) -> bool:
    return truth * (1 - 1e-15) <= value <= truth * (1 + within)


def dense_constants(instance: Dense) -> tuple[float, float, float]:
    """L, L_plus and L_pm^2 of least squares, one dense Hessian at a time."""
    mean, squares = np.zeros((2, instance.d, instance.d))
    for A in instance.A:
        mean += 2 / len(A) * A.T @ A / instance.n
        squares += 4 / len(A) ** 2 * A.T @ (A @ A.T) @ A / instance.n
    return largest(mean), np.sqrt(largest(squares)), largest(squares - mean @ mean)


def from_curvatures(H: np.ndarray) -> Dense:
    """Two clients with the Hessian diag(H) each on half of the features: L = max H/2, L_plus = max H/sqrt(2)."""
    halves = np.array_split(np.arange(len(H)), 2)
    rows = [np.eye(len(H))[half] * np.sqrt(H[half] * len(half) / 2)[:, None] for half in halves]
    return Dense(rows, [np.ones(len(half)) for half in halves])


def marchenko_pastur(d: int) -> Dense:
    """Dense Gaussian rows: no gap, a square-root edge."""
    rng = np.random.default_rng(d)
    return Dense([rng.standard_normal((d // 2, d)) for _ in range(3)], [np.ones(d // 2)] * 3)


def check(instance: Dense) -> Smoothness:
    found = smoothness(instance.problem())
    L, L_plus, L_pm2 = dense_constants(instance)
    assert instance.d > spectrum.DENSE
    assert "Lanczos" in found.how["L"]
    assert from_above(found.L, L)
    assert from_above(found.L_plus, L_plus)
    assert -1e-15 * L_plus**2 <= found.L_pm**2 - L_pm2 <= 1e-9 * L_plus**2
    return found


@pytest.mark.parametrize(("n", "d", "c", "most_rows"), [(20, 500, 5, 8), (8, 700, 2, 300), (30, 1500, 10, 12)])
def test_random_sparse_clients(n, d, c, most_rows):
    check(dense(d, n, d, c, "squared", most_rows))


def test_spectra_with_a_gap():
    check(from_curvatures(np.append(np.linspace(1, 10, 799), 20.0)))


@pytest.mark.parametrize(
    "instance",
    [from_curvatures(np.linspace(1, 20, 1200)), from_curvatures(np.ones(600)), marchenko_pastur(500)],
    ids=["uniform", "flat", "marchenko-pastur"],
)
def test_spectra_without_a_gap(instance):
    check(instance)


@pytest.mark.parametrize("kind", ["penalty", "logistic"])
def test_L_with_penalty_and_for_logistic(kind):
    instance = dense(1, 15, 500, 4, kind, 8)
    H = sum(instance.hessian(i, np.zeros(500)) for i in range(15)) / 15
    assert from_above(smoothness(instance.problem()).L, largest(H))


@pytest.mark.parametrize("power", [2, 4])
def test_where_300_steps_are_not_enough_lapack_gets_the_operator(power):
    found = smoothness(from_curvatures(1 - (np.arange(1000) / 1000) ** power).problem())
    assert from_above(found.L, 1 / 2)
    assert from_above(found.L_plus, np.sqrt(1 / 2))
    assert found.how["L"] == "exact (dense eigenvalue)"


@pytest.mark.parametrize("power", [2, 4])
def test_where_that_is_too_large_the_value_is_a_bound_from_above_and_says_how_far(power, monkeypatch):
    monkeypatch.setattr(spectrum, "DENSE_FALLBACK", 0)
    curvatures = 1 - (np.arange(1000) / 1000) ** power
    found = smoothness(from_curvatures(curvatures).problem())
    for value, truth, how in ((found.L, 1 / 2, found.how["L"]), (found.L_plus, np.sqrt(1 / 2), found.how["L_plus"])):
        assert how.startswith("bound")
        said = float(re.search(r"within ([\d.]+)%", how)[1]) / 100
        assert said < 0.003
        assert from_above(value, truth, within=1.3 * said)


@pytest.mark.parametrize("gap", [1e-13, 1e-12, 1e-11, 1e-10, 1e-9, 1e-7, 1e-5])
def test_two_nearly_equal_top_eigenvalues_are_not_confused(gap):
    # A small residual says that *an* eigenvalue is near, not that it is the largest: all places of the top one are tried.
    d = 500
    for top in range(0, d, 10):
        curvatures = np.linspace(0.1, 0.9, d)
        curvatures[top], curvatures[(top + 7) % d] = 1.0, 1.0 - gap
        assert from_above(largest_eigenvalue(lambda v, h=curvatures: h * v, d, key=top).upper, 1.0)


@pytest.mark.parametrize("gap", [1e-3, 1e-5, 1e-7, 1e-9])
def test_a_value_that_is_sooner_done_is_above_the_truth_and_half_a_percent_too_large_at_the_most(gap):
    d = 500
    for top in range(0, d, 10):
        curvatures = np.linspace(0.1, 0.9, d)
        curvatures[top], curvatures[(top + 7) % d] = 1.0, 1.0 - gap
        assert 1.0 <= largest_eigenvalue(lambda v, h=curvatures: h * v, d, top, close=1e-6).upper <= 1.00501


def test_negative_control_without_the_residual_the_ritz_value_is_below(monkeypatch):
    # A loose tolerance makes the residual visible: theta + rho is above the truth, theta is not.
    curvatures, loose = np.linspace(1, 20, 800), 2e-3

    def value() -> float:
        return largest_eigenvalue(lambda v: curvatures * v, 800, 0, close=loose).upper

    monkeypatch.setattr(spectrum, "MIXED", 1e-9)
    monkeypatch.setattr(spectrum, "UNLIKELY", np.inf)
    assert value() >= 20.0
    ritz = spectrum.ritz

    def bare(diagonal, off, beta):
        theta, rho, sigma = ritz(diagonal, off, beta)
        return theta, 0.0 if rho <= loose * theta else rho, sigma

    monkeypatch.setattr(spectrum, "ritz", bare)
    assert value() < 20.0 * (1 - 1e-7)


def test_negative_control_without_the_safety_of_the_random_start_the_value_is_below(monkeypatch):
    curvatures = 1 - (np.arange(1000) / 1000) ** 4
    monkeypatch.setattr(spectrum, "STEPS", 20)
    monkeypatch.setattr(spectrum, "DENSE_FALLBACK", 0)
    assert largest_eigenvalue(lambda v: curvatures * v, 1000, key=0).upper >= 1.0
    monkeypatch.setattr(spectrum, "FAILURE", 1.648 * np.sqrt(1000))  # log(...) = 0: the bare Ritz value
    assert largest_eigenvalue(lambda v: curvatures * v, 1000, key=0).upper < 1.0


PRINT = """
from theory.test_lanczos_from_above import bits
from theory.instances import dense
print(bits(dense(9, 10, 60, 3)), bits(dense(9, 12, 400, 4)), bits(dense(9, 12, 400, 4, "logistic")))
"""


def bits(instance: Dense) -> str:
    """Every bit of every constant, on a problem object of its own."""
    s = smoothness(instance.problem())
    return np.array([s.L, s.L_plus, s.L_pm, s.L_max, s.L_tilde, *s.L_i]).tobytes().hex()


def test_constants_are_the_same_to_the_last_bit_twice_and_in_another_process():
    here = [bits(dense(9, 10, 60, 3)), bits(dense(9, 12, 400, 4)), bits(dense(9, 12, 400, 4, "logistic"))]
    assert here == [bits(dense(9, 10, 60, 3)), bits(dense(9, 12, 400, 4)), bits(dense(9, 12, 400, 4, "logistic"))]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": "77"}
    run = subprocess.run([sys.executable, "-c", PRINT], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.split() == here


def test_negative_control_another_start_vector_gives_other_bits(monkeypatch):
    before = bits(dense(9, 12, 400, 4))
    monkeypatch.setattr(spectrum, "SEED", 1)
    assert bits(dense(9, 12, 400, 4)) != before
