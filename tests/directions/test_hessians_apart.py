"""Hessians of more features than a matrix has room for: what the server makes of them without ever summing them up."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from bytewise import Bytewise
from hessian_answers import answer_of, literal, sparse_rows
from scipy import sparse

import errorfeedback as ef
from errorfeedback.directions.few_bit_hessians import damped
from errorfeedback.directions.hessians_apart import Apart
from errorfeedback.problems.base import setup_bits
from errorfeedback.runtime.ledger import ownership_bits
from errorfeedback.sparsity import pairs

EVERYBODY = list(range(9))


@pytest.fixture
def few_are_many(monkeypatch):
    """From four features on."""
    monkeypatch.setattr(pairs, "MANY", 3)


def made(seed=0, l2=0.1, lam=0.01, units=None, smallest=1e-14):
    problem = sparse_rows(seed=seed)
    answer = answer_of(problem, EVERYBODY, 0.0, l2, units)
    return problem, answer, damped(answer.mean, answer, lam, smallest)


@pytest.mark.parametrize("seed", range(3))
def test_it_solves_with_the_matrix_that_it_multiplies_with(seed, few_are_many):
    units = 10.0 ** np.random.default_rng(seed).uniform(-1, 1, 12)
    problem, _, found = made(seed, units=units)
    H = literal(problem, EVERYBODY, [0.0] * 9, 0.0)[0] + np.diag(0.1 + 0.01 / units**2)
    v = np.random.default_rng(seed).standard_normal(12)
    np.testing.assert_allclose(found.times(v), H @ v, rtol=1e-10)
    exact = np.linalg.solve(H, v)
    size, shares = np.diag(H), []
    for b in np.random.default_rng(seed).standard_normal((300, 12)):
        left = H @ found.solve(b) - b
        shares.append((left @ (left / size)) / (b @ (b / size)))
    assert max(shares) <= 1.05e-6, "a thousandth of the residual, in the norm of the diagonal"
    assert found.solve(v) @ H @ found.solve(v) == pytest.approx(exact @ H @ exact, rel=1e-4)
    bare = found.own_diagonal
    np.testing.assert_allclose(bare, np.diag(H - 0.1 * np.eye(12)) * units**2 - 0.01, rtol=1e-9, atol=1e-12)


def test_a_share_of_the_largest_eigenvalue_is_added(few_are_many):
    *_, plain = made()
    *_, more = made(smallest=0.25)
    H = np.array([plain.product(e) for e in np.eye(12)])
    largest = np.linalg.eigvalsh(H)[-1]
    assert 0.9 * largest < plain.largest <= largest * (1 + 1e-12)
    np.testing.assert_allclose(more.diagonal, plain.diagonal + 0.25 * plain.largest, rtol=1e-9)


def test_where_rounding_has_left_no_curvature_a_direction_of_descent_comes_out(few_are_many):
    *_, found = made()
    wrong = Apart(found.units, found.grown, found.diagonal - 0.2, found.tellers, found.triangles)
    H = np.array([wrong.product(e) for e in np.eye(12)])
    assert np.linalg.eigvalsh(H)[0] < 0
    for v in np.random.default_rng(0).standard_normal((20, 12)):
        assert v @ wrong.solve(v) > 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_no_matrix(bad, few_are_many):
    _, answer, _ = made(l2=0.0)
    answer.mean[3] = bad
    assert damped(answer.mean, answer, 0.01) is None
    answer.mean[:] = 0.0
    assert damped(answer.mean, answer, 0.0) is None


def run(engine=None, **more):
    problem = sparse_rows()
    options = {"direction": ef.Curvature(ef.Uniform(10), price=0.3), "downlink": ef.FittedStep(), "rounds": 12}
    options |= {"prox": ef.ElasticNet(l2=1e-3), "x0": np.random.default_rng(1).standard_normal(12), "engine": engine}
    return problem, ef.solve(problem, ef.EF21(ef.PowersOfTwo(4), "compressed"), ef.Armijo(), **(options | more))


@pytest.mark.parametrize("clients", [None, 4])
def test_the_run_is_that_of_the_sum_and_has_the_same_bits_wherever_clients_live(clients, monkeypatch):
    direction = ef.Curvature(ef.Uniform(10), price=0.3, clients=clients)
    _, summed = run(direction=direction)
    monkeypatch.setattr(pairs, "MANY", 3)
    problem, one = run(direction=direction)
    assert one.history["f"][-1] == pytest.approx(summed.history["f"][-1], rel=1e-6)
    assert np.array_equal(one.history["curvature_bits"][:3], summed.history["curvature_bits"][:3])
    for engine in (ef.Threads(2), Bytewise(1), Bytewise(3), Bytewise(2, twice=True)):
        _, other = run(engine, direction=direction)
        assert np.array_equal(one.x, other.x)
        assert np.array_equal(one.history["uplink_bits"], other.history["uplink_bits"])
        if isinstance(engine, Bytewise):
            up, down = setup_bits(problem)
            assert 8 * engine.up + up + ownership_bits(problem) == other.history["uplink_bits"][-1]
            assert 8 * engine.down + down == other.history["downlink_bits"][-1]


class StoppedError(Exception):
    """In the middle of a run."""


def test_it_goes_on_from_a_checkpoint_bit_for_bit(tmp_path, few_are_many):
    _, whole = run()

    def stop(row):
        if row["round"] == 5:
            raise StoppedError

    with pytest.raises(StoppedError):
        run(watch=stop, checkpoint=ef.Checkpoint(tmp_path, every=2))
    assert np.array_equal(ef.resume(tmp_path).x, whole.x)


def test_it_takes_room_for_what_clients_have_told_and_not_for_a_matrix():
    rng = np.random.default_rng(0)
    n, d = 100, 20_000
    rows, columns = np.repeat(np.arange(4 * n), 20), rng.integers(0, d, 80 * n)
    A = sparse.csr_array((np.ones(80 * n), (rows, columns)), shape=(4 * n, d))
    problem = ef.ridged(ef.logistic(A, rng.choice([-1, 1], 4 * n), clients=np.repeat(np.arange(n), 4)), 1e-2)
    assert problem.d > 6000
    method, direction = ef.EF21(ef.PowersOfTwo(4), "compressed"), ef.Curvature(ef.Uniform(10), price=0.1)
    ef.solve(problem, method, ef.Armijo(), direction=direction, rounds=1)
    tracemalloc.start()
    result = ef.solve(problem, method, ef.Armijo(), direction=direction, rounds=12)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < problem.d**2, "an eighth of a matrix"
    assert result.history["grad_norm2"][-1] < 1e-8 * result.history["grad_norm2"][0]
