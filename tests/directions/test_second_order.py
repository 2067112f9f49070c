"""Newton's method across clients: compressed Hessians (FedNL), products with them (Newton-CG), steps of the clients' own
(GIANT)."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from bytewise import Bytewise
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.clients.bending import Bending
from errorfeedback.core import Point, Round
from errorfeedback.directions.base import Hessians
from errorfeedback.runtime.ledger import ownership_bits
from errorfeedback.sparsity.pairs import pairs_of, symmetric
from errorfeedback.sparsity.support import full_support


def logistic(clients=6, rows=60, d=5, seed=0):
    """Alike enough to have a minimum."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((clients * rows, d)) * (rng.random((clients * rows, d)) < 0.7)
    y = np.where(A @ np.ones(d) + 2 * rng.standard_normal(clients * rows) > 0, 1, -1)
    return ef.logistic(A, y, clients=clients)


COMPRESSED = {ef.TopK(3): reference.largest_entries(3), ef.LowRank(2): reference.largest_eigenvalues(2)}


@pytest.mark.parametrize("compressor", COMPRESSED, ids=str)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_fednl_equals_the_reference(loss, compressor):
    ours, literal = pair(loss, n=4, d=6, m=8, fill=0.5)
    xs = list(reference.fed_nl(literal, np.zeros(6), 25, COMPRESSED[compressor]))
    for rounds in (1, 6, 25):
        options = {"direction": ef.FedNL(compressor), "rounds": rounds, "every": rounds}
        got = ef.solve(ours, ef.DGD(), ef.Constant(1.0), **options)
        assert np.abs(got.x - xs[rounds]).max() <= 1e-10 * np.abs(xs).max()


@pytest.mark.parametrize("direction", ef.FedNL.examples(), ids=str)
def test_fednl_has_the_same_bits_wherever_clients_live_and_every_byte_is_counted(direction):
    problem, options = logistic(), {"direction": direction, "rounds": 6}
    whole = ef.solve(problem, ef.DGD(), ef.Constant(1.0), **options)
    for engine in (ef.Local(3), ef.Threads(2), Bytewise(1), Bytewise(3)):
        found = ef.solve(problem, ef.DGD(), ef.Constant(1.0), engine=engine, **options)
        assert np.array_equal(whole.x, found.x)
        assert np.array_equal(whole.history["uplink_bits"], found.history["uplink_bits"])
    ownership = ownership_bits(problem)
    assert 8 * engine.up + ownership == found.history["uplink_bits"][-1]
    assert found.history["curvature_bits"][-1] > 0


class StopError(Exception):
    """In the middle of a run."""


KEPT = {
    "FedNL": (ef.DGD(), ef.Constant(1.0), {"direction": ef.FedNL(ef.LowRank(1))}),
    "GIANT": (ef.GIANT(), ef.Constant(0.1), {}),
    "CoCoA+": (ef.CoCoAPlus(), ef.CocoaStep(), {}),
}


@pytest.mark.parametrize("name", KEPT)
def test_a_run_goes_on_where_it_was(name, tmp_path):
    """With the learned Hessians, the point where clients stood, and one dual variable per row."""
    method, rule, more = KEPT[name]
    whole, seen = ef.solve(logistic(), method, rule, rounds=9, **more), []

    def stop(row):
        if row["round"] == 6:
            raise StopError

    with pytest.raises(StopError):
        ef.solve(logistic(), method, rule, rounds=9, watch=stop, checkpoint=ef.Checkpoint(tmp_path, every=1), **more)
    found = ef.resume(tmp_path, engine=ef.Local(4), watch=seen.append)
    assert np.array_equal(whole.x, found.x)
    assert seen[0]["round"] == 6, "a checkpoint that is refused would be gone on with from round 0"


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_rank_r_is_the_best_matrix_of_its_rank_and_its_alpha_is_reached(rank):
    support = pairs_of(full_support(2, 4))
    operator, compressor = ef.LowRank(rank).on(support), ef.LowRank(rank)
    rng = np.random.default_rng(rank)
    halves = [rng.standard_normal((4, 4)), np.linalg.qr(rng.standard_normal((4, 4)))[0] @ np.diag([1.0, -1, 1, -1])]
    matrices = [halves[0] + halves[0].T, halves[1] @ np.diag([1.0, -1, 1, 1]) @ halves[1].T]  # and one with equal |lambda|
    u = np.concatenate([each[np.triu_indices(4)] for each in matrices])
    sent = operator(u, Round(0, 0))
    for i, U in enumerate(matrices):
        C = symmetric(sent.values[10 * i : 10 * i + 10], 4)
        values = np.sort(np.abs(np.linalg.eigvalsh(U)))
        assert np.sum((C - U) ** 2) == pytest.approx(np.sum(values[: 4 - rank] ** 2), rel=1e-12, abs=1e-24)
        assert np.linalg.matrix_rank(C) == rank
    share = np.sum((C - U) ** 2) / np.sum(U**2)  # the second one
    assert share == pytest.approx(1 - compressor.alpha(support)[1], rel=1e-12, abs=1e-12)
    assert operator.folded(sent).values.shape == (2 * rank * 5,)
    twin = np.concatenate([symmetric(sent.values[10 * i : 10 * i + 10], 4)[np.triu_indices(4)] for i in range(2)])
    factors = operator.folded(sent).values.reshape(2, rank, 5)
    out = np.einsum("ir,irp,irq->ipq", factors[:, :, 0], factors[:, :, 1:], factors[:, :, 1:])
    np.testing.assert_allclose(twin, np.concatenate([each[np.triu_indices(4)] for each in out]), rtol=1e-13, atol=1e-15)
    with pytest.raises(ValueError, match="LowRank compresses matrices"):
        compressor.on(full_support(1, 4))


def test_what_fednl_inverts_is_never_below_the_hessian_and_no_larger_than_it_says():
    """H + l I >= hess f(x), and l is at most sqrt(2) times the mean of the norms (and what 16 bits round)."""
    problem, direction = logistic(), ef.FedNL(ef.TopK(4))
    bending, state = Bending(problem, direction.hessians), direction.start(np.zeros(5))
    pairs = pairs_of(problem.support)
    for t in range(4):
        x = np.random.default_rng(t).standard_normal(5)
        message = bending.message(Point(shared=x), Round(t, 0))
        mean = pairs.scatter(message.lifted()) / problem.n
        answer = Hessians(mean, message.telemetry[:, 0], np.ones(5), np.zeros(5), problem.support, problem.support)
        state = direction.bent(state, answer)
        truth = np.empty(pairs.size)
        problem.hessians(Point(shared=x), truth)
        inverted = np.array([state.metric.times(unit) for unit in np.eye(5)])
        exact = symmetric(pairs.scatter(truth) / problem.n, 5)
        assert np.linalg.eigvalsh(inverted - exact).min() >= -1e-12
        l = np.mean(np.diag(inverted - symmetric(state.triangle, 5)))  # noqa: E741
        ends = pairs.indptr
        missing = [symmetric((truth - bending.estimate.values)[ends[i] : ends[i + 1]], 5) for i in range(problem.n)]
        norms = np.mean([np.linalg.norm(each) for each in missing])
        assert norms <= l * (1 + 1e-3) <= 1.45 * norms


def test_fednl_converges_faster_and_faster_near_the_minimum():
    problem = logistic()
    best = ef.solve(problem, ef.DGD(), ef.Armijo(), direction=ef.LBFGS(), rounds=100).x
    points = []
    for rounds in range(1, 10):
        options = {"direction": ef.FedNL(ef.TopK(8)), "rounds": rounds, "every": rounds}
        points.append(np.linalg.norm(ef.solve(problem, ef.DGD(), ef.Constant(1.0), **options).x - best))
    ratios = np.array(points[1:]) / np.array(points[:-1])
    assert (ratios**2 < 0.5).all()  # Theorem 3.6: the square of the distance is halved at least
    assert ratios[7] < 0.1 * ratios[0]


def test_with_as_many_products_as_features_newton_cg_is_newtons_method():
    rng = np.random.default_rng(0)
    problem = ef.least_squares(rng.standard_normal((40, 4)), rng.standard_normal(40), clients=5)
    history = ef.solve(problem, ef.NewtonCG(inner=4), ef.Constant(0.01), rounds=5, x0=np.ones(4)).history
    assert history["grad_norm2"][-1] < 1e-20 * history["grad_norm2"][0]
    fewer = ef.solve(problem, ef.NewtonCG(inner=3), ef.Constant(0.01), rounds=4, x0=np.ones(4)).history
    assert fewer["grad_norm2"][-1] > 1e-12 * history["grad_norm2"][0]
    smooth = ef.solve(logistic(), ef.NewtonCG(inner=5), ef.Constant(0.01), rounds=30, every=6).history["grad_norm2"]
    assert smooth[5] < 1e-12 * smooth[0]


def test_giant_is_newtons_method_where_clients_are_alike():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((10, 4)), rng.standard_normal((3, 10))
    alike = ef.least_squares(np.tile(A, (3, 1)), b.ravel(), np.repeat(np.arange(3), 10))
    history = ef.solve(alike, ef.GIANT(inner=4), ef.Constant(0.01), rounds=2, x0=np.ones(4)).history
    assert history["grad_norm2"][-1] < 1e-20 * history["grad_norm2"][0]
    half = ef.solve(alike, ef.GIANT(inner=4, step=0.5), ef.Constant(0.01), rounds=2, x0=np.ones(4)).history
    assert half["grad_norm2"][-1] == pytest.approx(0.25 * half["grad_norm2"][0], rel=1e-9)
    near = ef.solve(logistic(rows=400), ef.GIANT(), ef.Constant(0.1), rounds=16, every=2).history["grad_norm2"]
    assert (near[1:6] < 0.1 * near[:5]).all()


def test_giant_on_features_of_one_owner_each_is_newtons_method_too():
    """c = 1: every client's Hessian is n times its block of everybody's."""
    rng = np.random.default_rng(1)
    A, b = np.zeros((12, 6)), rng.standard_normal(12)
    for i in range(3):
        A[4 * i : 4 * i + 4, 2 * i : 2 * i + 2] = rng.standard_normal((4, 2))
    problem = ef.least_squares(A, b, np.repeat(np.arange(3), 4))
    history = ef.solve(problem, ef.GIANT(inner=2), ef.Constant(0.01), rounds=2, x0=np.ones(6)).history
    assert history["grad_norm2"][-1] < 1e-20 * history["grad_norm2"][0]


@pytest.mark.parametrize("scaled", [False, True])
def test_products_with_hessians_are_those_of_the_matrices(scaled):
    problem = ef.scaled(logistic()) if scaled else logistic()
    x, pairs = np.full(5, 0.3), pairs_of(problem.support)
    triangles, v = np.empty(pairs.size), np.random.default_rng(0).standard_normal(problem.support.size)
    problem.hessians(Point(shared=x), triangles)
    product = problem.hessian_times(Point(shared=x), v)
    for i in range(problem.n):
        lo, hi = problem.support.indptr[i : i + 2]
        H = symmetric(triangles[pairs.indptr[i] : pairs.indptr[i + 1]], hi - lo)
        np.testing.assert_allclose(product[lo:hi], H @ v[lo:hi], rtol=1e-11)


def test_who_has_no_hessians_is_refused_and_told_why():
    with pytest.raises(ValueError, match=r"GIANT.* does not fit the problem: it needs Hessians, and GLM has none to tell"):
        ef.solve(pair("softmax")[0], ef.GIANT(), ef.Constant(0.01), rounds=1)
