"""Features that one client alone has are left to it: what `problems.reduced` says, literally, client by client."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from own_rows_of_clients import L2, OWN, SHARED, D, N, linear, literal, table

import errorfeedback as ef
from errorfeedback.clients.own_weights import own_bits, own_weights
from errorfeedback.core import Lifted, Point, Round, Sample
from errorfeedback.problems.reduced import irreducible
from errorfeedback.sparsity.pairs import pairs_of, symmetric
from errorfeedback.storage.packing import pack, unpack

LOSSES = ("logistic", "squared", "huber", "squared hinge")
CUTS = [0, 1, 2, 3, N]
"""Of clients into shards; the third has no features of its own."""


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_client_is_at_the_minimum_over_its_own_features(loss, weighted):
    rows, x = linear(loss, weighted), np.random.default_rng(1).standard_normal(SHARED)
    problem = ef.reduced(rows, L2)
    assert (problem.n, problem.d, problem.width, problem.columns.tolist()) == (N, SHARED, D, list(range(SHARED)))
    expected = [literal(rows, i, x) for i in range(N)]
    values, out = np.empty(N), Lifted(np.empty(problem.support.size))
    problem.gradients(Point(x), out, values=values)
    np.testing.assert_allclose(values, [f for f, _ in expected], rtol=1e-10)
    np.testing.assert_array_equal(problem.values_at(x), values)
    columns, w, counts = problem.own_parts(x)
    assert counts.tolist() == [len(own) for own in OWN.values()]
    assert columns.tolist() == [j for own in OWN.values() for j in own]
    np.testing.assert_allclose(w, np.concatenate([w for _, w in expected]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
def test_its_gradients_are_the_derivatives_of_its_values(loss):
    problem, x, h = ef.reduced(linear(loss), L2), np.random.default_rng(2).standard_normal(SHARED), 1e-5
    ahead, behind = ([problem.values_at(x + sign * h * e) for e in np.eye(SHARED)] for sign in (1, -1))
    slopes = (np.array(ahead) - np.array(behind)).T / (2 * h)
    out, s = problem.gradients_at(x), problem.support
    for i in range(N):
        np.testing.assert_allclose(out[s.indptr[i] : s.indptr[i + 1]], slopes[i, s.features(i)], rtol=1e-5, atol=1e-8)


def triangles(problem, x, above):
    out = Lifted(np.empty(pairs_of(problem.support).size))
    problem.hessians(Point(x), out, above)
    return out


def hessians_of(problem, x, above=False):
    pairs, out = pairs_of(problem.support), triangles(problem, x, above)
    return [symmetric(pairs.shard(i, i + 1).scatter(out[pairs.indptr[i] : pairs.indptr[i + 1]]), SHARED) for i in range(N)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_its_hessians_are_schur_complements(loss, weighted):
    rows, x = linear(loss, weighted), np.random.default_rng(3).standard_normal(SHARED)
    problem, v = ef.reduced(rows, L2), np.random.default_rng(4).standard_normal(SHARED)
    times, s = problem.hessian_times(Point(x), problem.support.gather(v)), problem.support
    A, bound = rows.A.toarray(), {"logistic": 0.25, "squared": 2.0}[loss]
    for i, found in enumerate(hessians_of(problem, x)):
        own, mine = OWN.get(i, []), slice(rows.rows[i], rows.rows[i + 1])
        full = np.zeros(D)
        full[:SHARED], full[own] = x, literal(rows, i, x)[1]
        z = A[mine] @ full
        bends = bound / np.cosh(z / 2) ** 2 if loss == "logistic" else np.full(len(z), bound)
        H = A[mine].T @ ((bends * rows.shares[mine])[:, None] * A[mine])
        inner = H[np.ix_(own, own)] + N * np.diag(L2[own])
        schur = H[:SHARED, :SHARED] - H[:SHARED, own] @ np.linalg.solve(inner, H[own, :SHARED])
        np.testing.assert_allclose(found, schur, atol=1e-5 * np.abs(schur).max())
        segment = slice(s.indptr[i], s.indptr[i + 1])
        np.testing.assert_allclose(times[segment], (schur @ v)[s.features(i)], atol=1e-4 * np.abs(schur).max())


def test_a_quadratic_above_stays_above():
    """Long rows make kinks; w is found anew where x has gone."""
    A, labels, *_, clients, _ = table(5)
    problem = ef.reduced(ef.logistic(A * np.where(np.arange(len(A)) % 2, 30.0, 1.0)[:, None], labels, clients), L2)
    rng = np.random.default_rng(6)
    for _ in range(20):
        x, t = rng.standard_normal(SHARED), rng.standard_normal(SHARED) * 10.0 ** rng.uniform(-2, 1)
        B = sum(hessians_of(problem, x, above=True)) / N
        above = problem.value(x) + problem.gradient(x) @ t + t @ B @ t / 2
        assert problem.value(x + t) <= above * (1 + 1e-6)


def test_where_a_client_stands_alone_decides_what_it_says():
    """Not who else is there, nor where it stood before: the same bits in every shard, in any order, after packing."""
    problem = ef.reduced(linear("logistic"), L2)
    points = np.random.default_rng(7).standard_normal((3, SHARED))
    said = [problem.gradients_at(x) for x in points]
    again = [problem.gradients_at(x) for x in points[::-1]][::-1]
    assert np.array_equal(said, again)
    other = unpack(*pack(problem))
    for x, expected in zip(points, said, strict=True):
        parts = [other.shard(lo, hi) for lo, hi in pairwise(CUTS)]
        assert np.array_equal(np.concatenate([part.gradients_at(x) for part in parts]), expected)
        own = Lifted(problem.support.gather(x))
        elsewhere = Lifted(np.empty_like(own))
        problem.gradients(Point(own=own), elsewhere)
        assert np.array_equal(elsewhere, expected)
        for above in (False, True):
            whole = triangles(problem, x, above)
            assert np.array_equal(np.concatenate([triangles(part, x, above) for part in parts]), whole)
        ends, v = problem.support.indptr, problem.support.gather(x)
        products = [
            part.hessian_times(Point(x), v[ends[a] : ends[b]]) for part, a, b in zip(parts, CUTS, CUTS[1:], strict=False)
        ]
        assert np.array_equal(np.concatenate(products), problem.hessian_times(Point(x), v))
        told = [part.own_parts(x) for part in parts]
        for k, each in enumerate(problem.own_parts(x)):
            assert np.array_equal(np.concatenate([part[k] for part in told]), each)
    assert own_bits(problem).tolist() == [16 * len(OWN.get(i, [])) + 16 * (i in OWN) for i in range(N)]
    assert np.array_equal(np.concatenate([own_bits(part) for part in parts]), own_bits(problem))


def test_weights_are_said_in_16_bits_in_the_units_of_the_data():
    problem = ef.reduced(linear("squared"), L2)
    scaled, x = ef.scaled(problem, power=None, l2=0.01), np.random.default_rng(8).standard_normal(SHARED)
    columns, exact, _ = problem.own_parts(x)
    for said in (own_weights(scaled, x / scaled.scale), own_weights(problem, x)):
        assert np.array_equal(said[0], columns)
        np.testing.assert_allclose(said[1], exact, rtol=2.0**-11)
        assert not np.allclose(said[1], exact, rtol=2.0**-14)
    assert [len(each) for each in own_weights(linear("squared"), np.zeros(D))] == [0, 0]


def test_its_bound_on_the_curvature_is_that_of_the_shared_features():
    rows = linear("logistic")
    problem, whole = ef.reduced(rows, L2), rows.curvature()
    k = problem.curvature()
    np.testing.assert_array_equal(k.A.toarray(), whole.A.toarray()[:, :SHARED])
    assert (k.quadratic, k.attained, k.convex) == (False, False, True)
    L = np.linalg.eigvalsh(k.A.toarray().T @ (k.weights[:, None] * k.A.toarray()) / N).max()
    assert pytest.approx(L, rel=1e-9) == ef.analyse(problem).L
    assert problem.lower_bound == rows.lower_bound


@pytest.mark.parametrize(
    ("make", "l2", "why"),
    [
        (lambda A, y, b, clients: ef.logistic(A, y, clients), 0.0, "column 6 belongs to one client and has no penalty"),
        (lambda A, y, b, clients: ef.poisson(A, b - b.min(), clients), 0.1, "no second derivative with a bound"),
        (lambda A, y, b, clients: ef.logistic(A[:, 6:9], y, clients // N), 0.1, "client 0 shares no feature with anybody"),
    ],
    ids=["no penalty", "no bound", "no shared feature"],
)
def test_what_cannot_be_left_to_clients_is_refused_with_the_reason(make, l2, why):
    A, y, b, clients, _ = table()
    rows = make(A, y, b, clients)
    assert why in irreducible(rows, np.full(rows.d, l2))
    with pytest.raises(ValueError, match="own features cannot be left to their clients: .*" + why):
        ef.reduced(rows, l2)


@pytest.mark.parametrize(
    ("l2", "words"), [(-1.0, "finite and not negative"), (np.inf, "finite and not negative"), (np.ones(3), r"shape \(3,\)")]
)
def test_penalties_that_are_none_are_refused(l2, words):
    with pytest.raises(ValueError, match=words):
        ef.reduced(linear("logistic"), l2)


def test_only_rows_can_be_reduced():
    with pytest.raises(ValueError, match="Scaled is no linear model of rows: reduce these first"):
        ef.reduced(ef.scaled(linear("logistic")), 0.1)


def test_minibatches_are_refused_and_hessians_that_are_too_much_work_are_not_offered():
    problem = ef.reduced(linear("logistic"), L2)
    with pytest.raises(ValueError, match="no gradients over some of the rows"):
        problem.gradients(Point(np.zeros(SHARED)), Lifted(np.empty(problem.support.size)), rows=Sample(2, Round(0, 0)))
    assert problem.bends
    assert problem.hessian_work == sum(14 * len(problem.support.features(i)) ** 2 for i in OWN)
