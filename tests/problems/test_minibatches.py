"""Gradients over a few rows of every client: their noise is what `sampling_noise` says, the same rows are drawn wherever the
clients live and after a resume, and a problem that has no rows says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
from bytewise import Bytewise
from functions import probed

import errorfeedback as ef
from errorfeedback.core import Round
from errorfeedback.problems.base import setup_bits
from errorfeedback.runtime.ledger import ownership_bits

N, D, M = 5, 8, 6


def rows(seed=0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((M * N, D)) * (rng.random((M * N, D)) < 0.5)
    A[np.arange(M * N), np.arange(M * N) % D] = 1.0
    return A, rng.standard_normal(M * N), np.arange(M * N) % N


def problems():
    A, b, clients = rows()
    weights = 1.0 + np.arange(M * N) % 3
    return {
        "squares": ef.least_squares(A, b, clients),
        "logistic, weighted": ef.logistic(A, b > 0, clients, sample_weight=weights),
        "softmax": ef.softmax(A, np.digitize(b, [-0.5, 0.5]), clients),
        "counts, scaled": ef.scaled(ef.poisson(0.3 * A, np.floor(3 * np.abs(b)), clients)),
        "softmax, scaled": ef.scaled(ef.softmax(A, np.digitize(b, [-0.5, 0.5]), clients)),
        "huber, penalty": ef.huber(A, b, clients, regularizer=ef.NonconvexPenalty(0.1)),
        "against the rest": ef.glm(A, np.digitize(b, [-0.5, 0.5]), clients, ef.OneAgainstRest(outputs=3)),
        "uneven": ef.logistic(A, b > 0, np.minimum(np.arange(M * N) // 2, N - 1)),
    }


PROBLEMS = problems()
BOUNDED = ("logistic, weighted", "softmax", "softmax, scaled", "huber, penalty", "against the rest", "uneven")


def one_client(problem, i):
    part = problem.shard(i, i + 1)
    return part, part.inner if isinstance(part, ef.problems.scaling.Scaled) else part


def literal_variance(problem, i, x, batch):
    """E||.||^2 over all batches of client i, each drawn as a sample is; its rows one at a time are samples of size 1."""
    part, inner = one_client(problem, i)
    count = inner.rows[-1]
    whole, each = np.empty(part.support.size), {}
    part.gradients(ef.Point(x), whole)
    for seed in range(4000):
        ctx = Round(0, seed)
        row = tuple(ef.keyed.sampled_rows(ef.Sample(1, ctx), inner.rows, i)[0])
        if row not in each:
            each[row] = np.empty_like(whole)
            part.gradients(ef.Point(x), each[row], rows=ef.Sample(1, ctx))
    assert len(each) == count
    means = [np.mean(chosen, axis=0) for chosen in combinations(each.values(), min(batch, count))]
    np.testing.assert_allclose(np.mean(means, axis=0), whole, atol=1e-12)  # unbiased
    return np.mean([np.sum((mean - whole) ** 2) for mean in means])


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_noise_is_the_variance_over_all_batches(name):
    problem, rng = PROBLEMS[name], np.random.default_rng(3)
    x = rng.standard_normal(problem.d)
    for batch in (1, 2, M - 1, 100):
        noise = ef.sampling_noise(problem, batch, x)
        for i in (0, 2):
            assert noise[i] == pytest.approx(literal_variance(problem, i, x, batch), rel=1e-9, abs=1e-12)
    rows_of_all = np.diff((problem.inner if "scaled" in name else problem).rows)
    assert (ef.sampling_noise(problem, 100, x) == 0).all()
    assert ((ef.sampling_noise(problem, 1, x) > 0) == (rows_of_all > 1)).all()


@pytest.mark.parametrize("name", BOUNDED)
def test_the_bound_is_one_everywhere(name):
    problem, rng = PROBLEMS[name], np.random.default_rng(0)
    bound = ef.sampling_noise(problem, 2)
    for size in (0.1, 1.0, 10.0, 100.0):
        assert (ef.sampling_noise(problem, 2, size * rng.standard_normal(problem.d)) <= bound * (1 + 1e-9)).all()


STEEP = {
    "logistic": lambda: (ef.logistic(np.eye(50), [0, *[1] * 49], 1), 1e3 * np.array([1.0, *[-1.0] * 49])),
    "huber": lambda: (ef.huber(np.eye(50), np.zeros(50), 1, width=0.3), np.full(50, 9.0)),
    "softmax": lambda: (
        ef.softmax(np.eye(50), [0, *[1] * 49], 1, classes=(0, 1)),
        1e3 * np.array([-1.0, 1.0, *[1.0, -1.0] * 49]),
    ),
    "against the rest": lambda: (
        ef.glm(np.eye(50), np.zeros(50), 1, ef.OneAgainstRest(outputs=2)),
        1e3 * np.array([-1.0, 1.0] * 50),
    ),
}


@pytest.mark.parametrize("name", STEEP)
def test_tight_the_bound_is_reached_but_for_the_mean(name):
    """Rows without a feature in common, all as steep as can be: only ||mean||^2, a fiftieth, is between them."""
    problem, x = STEEP[name]()
    assert ef.sampling_noise(problem, 1, x)[0] == pytest.approx(ef.sampling_noise(problem, 1)[0] * (1 - 1 / 50), rel=1e-6)


def test_where_nothing_bounds_the_noise_that_is_said():
    with pytest.raises(ValueError, match="the derivative of Squared has no bound, nor has the noise of its gradients"):
        ef.sampling_noise(PROBLEMS["squares"], 2)
    with pytest.raises(ValueError, match="Autoencoder does not say how its rows differ"):
        ef.sampling_noise(ef.autoencoder(np.eye(6), clients=2, code=2), 2)


METHODS = [ef.EF21SGDM(ef.TopK(2), batch=2, eta=0.3), ef.EF14(ef.PowersOfTwo(4), batch=2)]
ENGINES = [ef.Local(3), ef.Threads(2), Bytewise(2)]


def solved(name, method, **more):
    return ef.solve(PROBLEMS[name], method, ef.Constant(0.02), rounds=40, every=7, seed=5, **more)


def assert_same_bits(a, b):
    assert np.array_equal(a.x, b.x)
    for column in a.history.keys() - {"seconds"}:
        assert np.array_equal(a.history[column], b.history[column], equal_nan=True), column


class StopError(Exception):
    """In the middle of a run."""


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("name", ["squares", "softmax, scaled", "counts, scaled"])
def test_the_same_rows_are_drawn_on_every_engine_and_after_a_resume_and_all_is_counted(name, method, tmp_path):
    def watch(row):
        if row["round"] == 21:
            raise StopError

    one = solved(name, method)
    for engine in ENGINES:
        assert_same_bits(one, solved(name, method, engine=engine))
    with pytest.raises(StopError):
        solved(name, method, watch=watch, checkpoint=ef.Checkpoint(tmp_path, every=10))
    assert_same_bits(one, ef.resume(tmp_path, engine=ef.Local(2)))
    engine, problem = Bytewise(3), PROBLEMS[name]
    by_bytes = solved(name, method, engine=engine)
    up, down = setup_bits(problem)
    assert 8 * engine.up + up + ownership_bits(problem) == by_bytes.history["uplink_bits"][-1]
    assert 8 * engine.down + down == by_bytes.history["downlink_bits"][-1]
    other = ef.solve(problem, method, ef.Constant(0.02), rounds=40, every=7, seed=6)
    assert not np.array_equal(one.x, other.x)  # negative control: another seed draws other rows


@pytest.mark.parametrize("method", [ef.EF21SGDM(ef.TopK(2)), ef.EF14(ef.TopK(2))], ids=str)
def test_a_batch_of_all_rows_is_the_whole_gradient(method):
    whole = solved("squares", method)
    kind, eta = type(method), {"eta": method.eta} if isinstance(method, ef.EF21SGDM) else {}
    np.testing.assert_allclose(solved("squares", kind(ef.TopK(2), batch=M, **eta)).x, whole.x, atol=1e-12)
    assert not np.allclose(solved("squares", kind(ef.TopK(2), batch=M - 1, **eta)).x, whole.x)


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_problem_without_rows_says_so(method):
    problem = probed([lambda x: (x @ x, 2 * x)] * 3, 4)
    with pytest.raises(ValueError, match="Functions takes no gradients over a sample of its rows; use a method on all"):
        ef.solve(problem, method, ef.Constant(0.1), rounds=3)
    assert ef.solve(problem, ef.EF21SGDM(ef.TopK(2)), ef.Constant(0.1), rounds=3).rounds == 3
    assert ef.solve(ef.autoencoder(np.eye(6), clients=2, code=2), method, ef.Constant(0.01), rounds=3).rounds == 3


@dataclass(frozen=True)
class Wrong:
    batch: object
    said: str


@pytest.mark.parametrize("wrong", [Wrong(0, "size = 0"), Wrong(1.5, "size = 1.5"), Wrong(True, "size = True")])
def test_what_a_batch_may_be(wrong):
    for kind in (ef.EF14, ef.EF21SGDM):
        with pytest.raises(ValueError, match=f"{wrong.said}; a sample needs a whole number of rows of at least 1"):
            kind(ef.TopK(1), batch=wrong.batch)
    for eta in (0.0, 1.5, np.nan):
        with pytest.raises(ValueError, match=f"eta = {eta}; the share of a new gradient in the momentum"):
            ef.EF21SGDM(ef.TopK(1), eta=eta)
