"""Beznosikov et al. (2020), Example 1, the reason for error feedback: n = d = 3, f_i(x) = <a_i, x>^2 + ||x||^2/4 with
a_1 = (-3, 2, 2), a_2 = (2, -3, 2), a_3 = (2, 2, -3). From x^0 = (t, t, t), DCGD with Top1 sends the entry -11 t/2 of every
client, so x^{k+1} = (1 + 11 gamma/6) x^k: it diverges for every step size. EF14 and EF21 do not.
"""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef

a = np.array([[-3.0, 2.0, 2.0], [2.0, -3.0, 2.0], [2.0, 2.0, -3.0]])
GRID = (1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
x0 = np.ones(3)


@pytest.fixture(scope="module")
def problem():
    """Four rows per client, b = 0: (1/4)(<2 a_i, x>^2 + sum_j x_j^2)."""
    return ef.least_squares(np.vstack([np.vstack([2 * row, np.eye(3)]) for row in a]), np.zeros(12), 3)


def run(problem, method, gamma: float, rounds: int) -> np.ndarray:
    """||x|| over ||x^0||, or infinity where the run stopped because f is not finite."""
    result = ef.solve(problem, method, ef.Constant(gamma), rounds=rounds, x0=x0, every=rounds)
    return np.inf if "diverged" in result.stopped else np.linalg.norm(result.x) / np.linalg.norm(x0)


def diverges(problem, method, gamma: float) -> bool:
    """||x|| grew a thousandfold within 5/gamma (at least 50) rounds, and another thousandfold in the next."""
    rounds = max(int(5 / gamma), 50)
    return run(problem, method, gamma, rounds) > 1e3 and run(problem, method, gamma, 2 * rounds) > 1e6


def test_the_problem_is_the_example(problem):
    rng = np.random.default_rng(0)
    for _ in range(10):
        x = rng.standard_normal(3)
        f_i = (a @ x) ** 2 + x @ x / 4
        assert np.allclose(problem.values_at(x), f_i, rtol=1e-12)
        assert np.allclose(problem.gradients_at(x).reshape(3, 3), 2 * (a @ x)[:, None] * a + x / 2, rtol=1e-12, atol=1e-12)
    assert np.isclose(ef.analyse(problem).L, 2 / 3 * 25 + 1 / 2, rtol=1e-12)


@pytest.mark.parametrize("gamma", GRID)
def test_DCGD_with_Top1_diverges_for_every_step_size_by_the_factor_of_the_example(problem, gamma):
    rounds = 50
    result = ef.solve(problem, ef.DCGD(ef.TopK(1)), ef.Constant(gamma), rounds=rounds, x0=x0)
    assert np.allclose(result.x, (1 + 11 * gamma / 6) ** rounds * x0, rtol=1e-10)
    assert (np.diff(result.history["f"]) > 0).all()
    assert diverges(problem, ef.DCGD(ef.TopK(1)), gamma)


@pytest.mark.parametrize("gamma", GRID[:-1])
@pytest.mark.parametrize(
    "method", [ef.EF14(ef.TopK(1)), ef.EF21(ef.TopK(1)), ef.EF21(ef.TopK(1), start="gradient")], ids=str
)
def test_EF14_and_EF21_with_Top1_converge_where_DCGD_diverges(problem, method, gamma):
    # The flattest direction has curvature 7/6, so 10/gamma rounds shrink it by about exp(-35/3).
    assert not diverges(problem, method, gamma)
    assert run(problem, method, gamma, int(10 / gamma)) < 1e-3


def test_EF21_converges_with_the_step_of_theorem_1(problem):
    result = ef.solve(problem, ef.EF21(ef.TopK(1)), ef.RareFeatures(), rounds=20_000, x0=x0, every=1000)
    assert result.history["f"][-1] < 1e-12 * result.history["f"][0]
    assert ef.verify(result).holds


def test_negative_control_without_compression_DCGD_converges(problem):
    # The check sees the compressor, not the problem: Top3 sends everything, and Top1 itself is fine away from the diagonal.
    for gamma in GRID:
        assert not diverges(problem, ef.DCGD(ef.TopK(3)), gamma)
        assert run(problem, ef.DGD(), gamma, int(10 / gamma)) < 1e-3


def test_negative_control_a_step_beyond_all_theory_makes_EF21_diverge_too(problem):
    assert diverges(problem, ef.EF21(ef.TopK(1)), 1.0)
