"""The race is fair: peers reach the optimum, bytes are those of a hand count, natural clients are as promised."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from racing import records
from racing.books import LINKS, Curve, Link
from racing.contest import BYTES, PEERS, US, Outcome, race
from racing.data import by_label, shuffled
from racing.first_order import agd, gd, smoothness
from racing.lbfgs import lbfgs
from racing.local_training import cocoa, fedavg
from racing.natural import natural, popularity
from racing.newton import newton, newton_cg
from racing.objective import Objective, objective
from racing.ours import as_problem, ours
from racing.tables import against, table


@pytest.fixture(scope="module")
def small() -> Objective:
    """Eight clients, forty features and the intercept."""
    made = natural(clients=8, items=25, own=15, seed=3, spread=10.0, per_row=5, repeats=12.0)
    return objective(made.A, made.y, made.clients, l2=1e-2)


def tiny() -> Objective:
    """J_0 = {0, 1, 2, intercept}, J_1 = {2, intercept}."""
    A = sparse.csr_array(np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 3.0]]))
    return objective(A, np.array([0, 1, 1, 0]), np.array([7, 7, 9, 9]))


def test_the_optimum_is_that_of_a_general_solver(small: Objective) -> None:
    found = minimize(small.value_and_gradient, np.zeros(small.d), jac=True, method="BFGS", options={"gtol": 1e-9})
    assert small.optimum == pytest.approx(found.fun, rel=1e-10)
    g = small.value_and_gradient(found.x)[1]
    assert found.fun - g @ g / (2 * small.l2) <= small.optimum <= found.fun * (1 + 1e-10)


def test_a_newton_step_by_conjugate_gradients_is_that_of_a_factorisation(small: Objective, monkeypatch: object) -> None:
    x = np.linspace(-1, 1, small.d)
    g = small.value_and_gradient(x)[1]
    exact = small.newton_step(x, g)
    monkeypatch.setattr("racing.objective.DENSE", 0)
    np.testing.assert_allclose(small.newton_step(x, g, 1e-10), exact, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("peer", [lbfgs, newton, newton_cg, agd, gd])
def test_peers_reach_the_optimum(small: Objective, peer: object) -> None:
    curves = peer(small, small.level(1e-6), 3000)
    assert min(small.gaps(curve.f).min() for curve in curves.values()) <= 1e-6
    assert all(small.gaps(curve.f).min() > -1e-9 for curve in curves.values())


def test_cocoa_reaches_the_optimum(small: Objective) -> None:
    curves = cocoa(small, small.level(1e-3), 60)
    assert min(small.gaps(curve.f).min() for curve in curves.values()) <= 1e-3


def test_fedavg_with_one_client_is_sgd_and_comes_near(small: Objective) -> None:
    alone = Objective(small.A, small.y, np.array([0, small.m]), small.l2)
    curves = fedavg(alone, alone.level(1e-2), 100)
    assert min(alone.gaps(curve.f).min() for curve in curves.values()) <= 1e-2


def test_features_and_owners_of_a_hand_made_problem() -> None:
    f = tiny()
    assert f.sizes.tolist() == [4, 2]
    assert f.owners.tolist() == [1, 1, 2, 2]


def test_bytes_of_lbfgs_are_those_of_a_hand_count() -> None:
    f = tiny()
    for curve in lbfgs(f, f.level(1e-5), 100).values():
        k = np.arange(1, len(curve.f) + 1)  # evaluations; nobody has to be told x = 0
        np.testing.assert_array_equal(curve.exchanges, k)
        np.testing.assert_array_equal(curve.up, k * ((4 + 8 * 4 + 8) + (4 + 8 * 2 + 8)) / 2)
        np.testing.assert_array_equal(curve.down, (k - 1) * ((4 + 8 * 4) + (4 + 8 * 2)) / 2)
        np.testing.assert_array_equal(curve.slowest_up, k * (4 + 8 * 4 + 8))
        np.testing.assert_array_equal(curve.slowest_down, (k - 1) * (4 + 8 * 4))


def test_bytes_of_newton_are_those_of_a_hand_count() -> None:
    f = tiny()
    (curve,) = newton(f, f.level(1e-5), 100).values()
    k = np.arange(1, len(curve.f) + 1)  # triangles of 10 and of 3; the last answer is the loss alone
    np.testing.assert_array_equal(curve.slowest_up, (k - 1) * (4 + 8 * (10 + 4 + 1)) + 12)
    np.testing.assert_array_equal(curve.up, (k - 1) * ((4 + 8 * 15) + (4 + 8 * 6)) / 2 + 12)


def test_bytes_without_losses_are_those_of_a_hand_count() -> None:
    f = tiny()
    for peer in (gd, agd, fedavg, cocoa):
        for curve in peer(f, f.level(1e-2), 20).values():
            np.testing.assert_array_equal(curve.exchanges, np.arange(len(curve.f)))
            np.testing.assert_array_equal(curve.slowest_up, 36 * curve.exchanges)
            np.testing.assert_array_equal(curve.slowest_down, 36 * np.maximum(curve.exchanges - 1, 0))


def test_seconds_are_two_latencies_and_the_slowest_clients_bits() -> None:
    curve = Curve(*np.array([[0.5], [3.0], [10.0], [10.0], [125.0], [250.0]]))
    assert curve.seconds(Link("", up=1000.0, down=4000.0, latency=0.1)) == pytest.approx([3 * 0.2 + 1.0 + 0.5])


def test_smoothness_is_the_largest_eigenvalue(small: Objective) -> None:
    scale = 1 / np.sqrt(small.diagonal)
    H = (small.A * scale).T @ (small.A * scale) / (4 * small.m)
    H = H.toarray() + small.l2 * np.diag(scale**2)
    assert smoothness(small, scale) == pytest.approx(np.linalg.eigvalsh(H).max(), rel=1e-2)


def test_the_library_is_given_the_same_objective(small: Objective) -> None:
    problem, prox = as_problem(small, power=0.5)
    for x in (np.zeros(small.d), np.linspace(-1, 1, small.d)):
        z = x / problem.scale
        assert problem.value(z) + prox.value(z) == pytest.approx(small.value(x), rel=1e-12)


def test_we_are_read_from_the_runs_own_books(small: Objective) -> None:
    curve = ours(small, BYTES, small.level(1e-2), 200)
    assert curve.f[0] < small.start  # the mean of the clients' own models
    assert curve.first(small.level(1e-2)) is not None
    assert np.all(np.diff(curve.total) > 0)
    assert np.all(curve.slowest_up >= curve.up)


def test_we_get_no_choice_in_hindsight(small: Objective) -> None:
    curves = {name: Curve(*np.array([[0.0], [k], [k], [k], [k], [k]])) for k, name in enumerate((BYTES, LINKS[0].name), 1)}
    fast = {q: Outcome(US, curves, 0.0).needed(small, 1e-3, q)[1] for q in ("kB", "rounds", LINKS[0].name, LINKS[1].name)}
    assert fast == {"kB": BYTES, "rounds": BYTES, LINKS[0].name: LINKS[0].name, LINKS[1].name: BYTES}


def test_records_and_tables_name_the_best_peer(small: Objective) -> None:
    needs = {}
    for method in (US, "L-BFGS", "Newton"):
        kept = records.of(small, race(small, method, 1e-2), [1e-2])
        needs[method] = {q: np.inf if v is None else v for q, v in kept["needs"]["0.01"].items()}
    share, peer = against(needs, "kB")
    assert peer == min(("L-BFGS", "Newton"), key=lambda name: needs[name]["kB"])
    assert share == pytest.approx(needs[US]["kB"] / needs[peer]["kB"])
    assert f"{share:.2f} ({peer})" in table(needs)
    assert set(PEERS) >= {"L-BFGS", "Newton"}


def test_an_envelope_is_the_lowest_gap_for_the_bytes() -> None:
    steep = {"up": [500.0, 1000.0, 2000.0], "down": [500.0, 1000.0, 2000.0], "gap": [0.9, 0.5, 1e-3]}
    early = {"up": [500.0, 1500.0], "down": [500.0, 1500.0], "gap": [0.4, 0.3]}
    kB, gap = records.envelope("L-BFGS", {"steep": steep, "early": early})
    assert (kB.tolist(), gap.tolist()) == ([1.0, 3.0, 4.0], [0.4, 0.3, 1e-3])
    assert records.envelope(US, {BYTES: steep, "a link": early})[1].tolist() == steep["gap"]


@pytest.mark.parametrize("values", ["ones", "weights"])
def test_natural_clients_are_as_promised(values: str) -> None:
    made = natural(clients=100, items=2000, own=500, seed=5, c=60, values=values)
    f = objective(made.A, made.y, made.clients)
    assert (f.n, f.d) == (100, 2501)
    assert f.sizes.tolist() == (made.sizes + 1).tolist()  # and the intercept
    assert f.owners[:-1].tolist() == made.owners.tolist()
    assert made.owners[:2000].tolist() == popularity(2000, 60, 0.8).tolist()
    assert (made.owners[2000:] == 1).all()
    assert made.c == 60
    assert made.r > 10 * int(made.sizes.min())
    assert 0.15 < float((made.y > 0).mean()) < 0.5


def test_natural_data_are_keyed_by_their_seed() -> None:
    one, same, other = (natural(clients=10, items=50, own=20, seed=seed) for seed in (1, 1, 2))
    assert (one.A != same.A).nnz == 0
    assert one.y.tolist() == same.y.tolist()
    assert one.sizes.tolist() != other.sizes.tolist()


def test_partitions_use_every_row() -> None:
    y = np.repeat([1.0, -1.0], [30, 71])
    even, sorted_by_label = shuffled(101, 10, seed=0), by_label(y, 10, seed=0)
    for ids in (even, sorted_by_label):
        assert np.ptp(np.bincount(ids, minlength=10)) <= 1
    both = sum(len(np.unique(y[sorted_by_label == i])) == 2 for i in range(10))
    assert both <= 1
