"""Hessians that some clients tell for all: who they are, what the server makes of them, and how good that is."""

from __future__ import annotations

from math import e

import numpy as np
import pytest
from hessian_answers import answer_of, literal, sparse_rows

import errorfeedback as ef
from errorfeedback.clients.bending import Bending
from errorfeedback.directions.base import Asking, Hessians
from errorfeedback.directions.few_bit_hessians import damped, noise, times
from errorfeedback.directions.hessians_apart import Apart
from errorfeedback.sparsity import pairs
from errorfeedback.sparsity.support import full_support


@pytest.mark.parametrize("many", [1500, 3])
@pytest.mark.parametrize("tellers", [[0, 4, 8], [2], list(range(9))])
@pytest.mark.parametrize("seed", range(3))
def test_what_some_have_told_is_taken_for_what_all_have(tellers, seed, many, monkeypatch):
    """Summed, and kept apart where features are many."""
    monkeypatch.setattr(pairs, "MANY", many)
    problem = sparse_rows(seed=seed)
    missing = 10.0 ** np.random.default_rng(seed).uniform(-4, -2, len(tellers))
    answer = answer_of(problem, tellers, missing, l2=0.3)
    P, lam = literal(problem, tellers, list(missing), 0.3)
    assert noise(answer) == pytest.approx(lam, rel=1e-12)
    found = damped(answer.mean, answer, lam, 1e-14)
    assert isinstance(found, Apart) is (many == 3)
    np.testing.assert_allclose(np.array([found.times(unit) for unit in np.eye(problem.d)]), P, rtol=1e-10, atol=1e-13)
    assert len(tellers) > 1 or (times(answer) == 0).any()  # features of which nobody has told are looked at


def test_where_all_have_told_nothing_changes_by_a_bit():
    problem = sparse_rows()
    assert (times(answer_of(problem, list(range(9)), 0.0)) == 1.0).all()


def test_every_client_is_drawn_as_often_as_every_other():
    """1,000 draws of 3 out of 12: 250 for each, with a standard deviation of 13.7."""
    often = np.bincount(np.concatenate([Asking(ef.Identity(), 3).among(12, seed) for seed in range(1000)]), minlength=12)
    assert often.sum() == 3000
    assert np.abs(often - 250).max() < 4 * 13.7


def test_who_tells_does_not_depend_on_where_clients_live():
    support, asking = sparse_rows().support, Asking(ef.Identity(), 4)
    whole = asking.told_by(support, seed=5)
    parts = [asking.told_by(support.shard(lo, hi), seed=5) for lo, hi in ((0, 2), (2, 3), (3, 9))]
    assert whole.n == 4 == sum(part.n for part in parts)
    assert np.array_equal(np.concatenate([part.indices for part in parts]), whole.indices)
    assert [part.first for part in parts] == [0, parts[0].n, parts[0].n + parts[1].n]
    assert {part.n_total for part in parts} == {4}
    assert asking.among(9, 5).tolist() == [i for i in range(9) if i in asking.tellers(support, 5)]
    assert Asking(ef.Identity(), 9).among(9, 0).tolist() == Asking(ef.Identity()).among(9, 0).tolist() == list(range(9))


def test_the_others_send_nothing_of_their_hessians():
    """Three frames: a head of 4 bytes or 5, 16 bits of what is missing, and a unit and 8 bits for every pair."""
    problem, direction = sparse_rows(), ef.Curvature(ef.Uniform(8), price=2.0, clients=3)
    run = ef.solve(problem, ef.EF21(ef.PowersOfTwo(4)), ef.Armijo(), direction=direction, rounds=2, x0=np.ones(12), seed=7)
    sizes = Asking(ef.Uniform(8), 3).told_by(problem.support, 7).sizes
    entries = sizes * (sizes + 1) // 2
    heads = 24 + 8 * np.where(entries < 128, 1, 2)
    assert run.history["curvature_bits"][0] == (heads + 16 + 16 + 8 * entries).sum()
    assert run.history["tellers"].tolist() == [3, 3, 3]


def test_at_zero_some_do_not_tell_at_once():
    """Its Hessian is soon out of date; all of them tell there all the same, where that costs little."""
    some, every = ef.Curvature(price=2.0, clients=3), ef.Curvature(price=2.0)
    assert not some.asks(some.start(np.zeros(4)), None)
    assert some.asks(some.start(np.ones(4)), None)
    assert every.asks(every.start(np.zeros(4)), None)
    dear = ef.Curvature(price=2.1, clients=3)
    assert not dear.asks(dear.start(np.ones(4)), None)


def test_nobody_is_not_some():
    for clients in (0, -1, 2.5, True, "3"):
        with pytest.raises(ValueError, match=r"clients = .*; a whole number of at least 1 tells its Hessian"):
            ef.Curvature(clients=clients)


@pytest.mark.parametrize("wrong", ["one number", "another client's"])
def test_estimates_of_others_are_refused(wrong):
    """A snapshot may hold anything."""
    bending = Bending(sparse_rows(), Asking(ef.Identity(), 2))
    bending.message(ef.Point(shared=np.zeros(12)), ef.Round(0, 0))
    values, counts = bending.estimate.values, bending.estimate.counts
    bending.estimate = {
        "one number": ef.RowMemory(np.ones(1), np.eye(9, dtype=np.int64)[0]),
        "another client's": ef.RowMemory(values, np.roll(counts, 1)),
    }[wrong]
    with pytest.raises(ValueError, match="are not those of the clients that tell theirs"):
        bending.message(ef.Point(shared=np.zeros(12)), ef.Round(1, 0))


# docs/theory.md, section 27


@pytest.mark.parametrize("eps", [0.1, 0.3, 0.5])
def test_lemma_a_step_with_a_matrix_between_leaves_that_share_of_the_gap(eps):
    """(1 - eps) A <= P <= (1 + eps) A: a step P^-1 g leaves at most (eps / (1 - eps))^2 of a quadratic's gap, and where P is
    (1 - eps) A that much."""
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(200):
        root = rng.standard_normal((6, 6)) * 10.0 ** rng.uniform(-2, 2, 6)
        A, turn = root.T @ root, np.linalg.qr(rng.standard_normal((6, 6)))[0]
        between = turn @ np.diag(rng.choice([1 - eps, 1 + eps, rng.uniform(1 - eps, 1 + eps)], 6)) @ turn.T
        x = rng.standard_normal(6)
        after = x - np.linalg.solve(root.T @ between @ root, A @ x)
        worst = max(worst, (after @ A @ after) / (x @ A @ x))
    bound = (eps / (1 - eps)) ** 2
    assert 0.3 * bound < worst <= bound * (1 + 1e-6)
    exactly = x - np.linalg.solve((1 - eps) * A, A @ x)
    assert (exactly @ A @ exactly) / (x @ A @ x) == pytest.approx(bound, rel=1e-6)


def coherence(each):
    """R: the largest eigenvalue of A^-1/2 H_i A^-1/2 over the clients, A the mean of all."""
    A = np.mean(each, axis=0)
    values, vectors = np.linalg.eigh(A)
    root = vectors / np.sqrt(values)
    return max(np.linalg.eigvalsh(root.T @ H @ root)[-1] for H in each), root


@pytest.mark.parametrize("condition", [1.0, 1e6])
def test_theorem_the_mean_over_some_is_between_with_the_probability_that_chernoff_gives(condition):
    """Of s clients out of n, all of whom own all features: below (1 - eps) A with a probability of at most
    d (e^-eps / (1 - eps)^(1 - eps))^(s/R), above (1 + eps) A with d (e^eps / (1 + eps)^(1 + eps))^(s/R), whatever A's
    condition is. As a share of the curvature the error is (d/rows)^(1/2) in the root mean square over directions, and in the
    worst one at most 2 (d/rows)^(1/2) + d/rows, on average."""
    rng, n, d, m, s, eps = np.random.default_rng(0), 200, 4, 60, 40, 0.6
    units = np.geomspace(1.0, condition**-0.5, d)
    rows = rng.standard_normal((n, m, d)) * units
    each = np.einsum("imj,imk->ijk", rows, rows) / m
    R, root = coherence(each)
    below, above, errors, squares = 0, 0, [], []
    for seed in range(300):
        chosen = Asking(ef.Identity(), s).among(n, seed)
        answer = Hessians(
            np.zeros(0), np.where(np.isin(np.arange(n), chosen), 0.0, np.nan), units, units, *[full_support(n, d)] * 2
        )
        grown = np.sqrt(times(answer))
        P = grown[:, None] * (each[chosen].sum(axis=0) / n) * grown
        values = np.linalg.eigvalsh(root.T @ P @ root)
        below, above = below + (values[0] < 1 - eps), above + (values[-1] > 1 + eps)
        errors.append(max(1 - values[0], values[-1] - 1))
        squares.append(np.mean((root.T @ P @ root - np.eye(d)) ** 2) * d)
    lower, upper = d * (e**-eps / (1 - eps) ** (1 - eps)) ** (s / R), d * (e**eps / (1 + eps) ** (1 + eps)) ** (s / R)
    assert below / 300 <= lower < 0.1
    assert above / 300 <= upper < 0.3
    share = np.sqrt(d / (s * m) * (1 - s / n))  # without replacement
    assert np.sqrt(np.mean(squares)) == pytest.approx(share, rel=0.1)
    assert share < np.mean(errors) < 2 * share + share**2
