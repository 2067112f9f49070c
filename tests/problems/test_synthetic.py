"""The paper's generator (appendix), as its authors' code reads."""

from __future__ import annotations

import numpy as np
import pytest

import errorfeedback as ef


@pytest.mark.parametrize("c", [1, 5, 20])
def test_every_feature_lives_on_exactly_c_clients(c):
    problem = ef.synthetic(n=20, d=80, m=4, c=c)
    assert set(problem.support.counts.tolist()) == {c}
    assert problem.n == 20
    assert problem.A.shape == (80, 80)


def test_the_spectrum_is_the_one_of_the_code():
    v, m = 0.3, 5
    problem = ef.synthetic(n=6, d=40, m=m, c=3, v=v, seed=2)
    for i in range(6):
        block = problem.A[problem.rows[i] : problem.rows[i + 1]].toarray()
        eigenvalues = np.sort(np.linalg.eigvalsh(2 / m * block @ block.T))
        k, size = np.arange(m), problem.support.sizes[i]
        s = (1 - v) * np.sqrt(1 + 19 * k / (size - 1)) + v * (10 if i == 0 else 0)
        np.testing.assert_allclose(eigenvalues, np.sort(s**2), rtol=1e-10)


def test_the_spectrum_of_the_text():
    v, m = 0.3, 5
    problem = ef.synthetic(n=6, d=40, m=m, c=3, v=v, spectrum="text")
    for i in range(6):
        block = problem.A[problem.rows[i] : problem.rows[i + 1]].toarray()
        expected = (1 - v) * np.linspace(1, 20, m)
        expected[-1] += v * 10 * (i == 0)
        np.testing.assert_allclose(np.sort(np.linalg.eigvalsh(2 / m * block @ block.T)), expected, rtol=1e-10)


def test_at_the_papers_size_L_i_are_where_the_authors_code_has_them():
    """theory.md: L_i in [5.8, 12.1] at c/n = 0.05 in a run of the authors' code; never 20."""
    L_i = ef.analyse(ef.synthetic(n=100, d=500, m=12, c=5, v=0.1, noise=2.0, seed=0)).L_i
    assert 4.5 < np.sort(L_i)[0] < 7
    assert 10 < np.sort(L_i)[-2] < 15
    assert L_i.max() < 20


def test_without_noise_one_half_everywhere_is_a_solution():
    problem = ef.synthetic(n=10, d=30, m=4, c=3, noise=0.0)
    assert problem.value(np.full(30, 0.5)) < 1e-25


def test_noise_is_uniform_in_minus_p_to_p_before_the_scaling():
    m, p = 12, 2.0
    problem = ef.synthetic(n=100, d=500, m=m, c=5, noise=p)
    noise = (problem.target - problem.A @ np.full(500, 0.5)) / np.sqrt(m / 2)
    assert np.abs(noise).max() <= p
    assert np.abs(noise).max() > 0.98 * p
    assert noise.var() == pytest.approx(p**2 / 3, rel=0.1)


def test_seeds():
    a, b, other = (ef.synthetic(n=10, d=30, m=4, c=3, seed=s) for s in (1, 1, 2))
    assert np.array_equal(a.A.data, b.A.data)
    assert not np.array_equal(a.A.data, other.A.data)


def test_five_attempts_then_a_clear_error():
    with pytest.raises(ValueError, match="after 5 attempts a client still has no feature"):
        ef.synthetic(n=50, d=10, m=2, c=1)


def test_a_client_with_a_single_singular_value_gets_the_largest():
    """The authors' code: sqrt(20) whatever v is, when a client has one row or one feature."""
    L_i = ef.analyse(ef.synthetic(n=10, d=30, m=1, c=3, v=0.5)).L_i
    np.testing.assert_allclose(L_i, 20.0, rtol=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"c": 0}, "c = 0"),
        ({"c": 11}, "c = 11"),
        ({"v": 1.0}, "v = 1.0"),
        ({"noise": -1.0}, "noise = -1"),
        ({"n": 0}, "n = 0"),
        ({"spectrum": "x"}, "spectrum = 'x'"),
    ],
)
def test_bad_parameters(change, message):
    with pytest.raises(ValueError, match=message):
        ef.synthetic(**({"n": 10, "d": 30, "m": 4, "c": 3} | change))
