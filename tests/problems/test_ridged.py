"""A penalty within f is the one that the server adds, to every number that can be asked for."""

from __future__ import annotations

import numpy as np
import pytest
from problem_pairs import pair

import errorfeedback as ef
from errorfeedback.core import Lifted, Point
from errorfeedback.problems.scaling import scaled
from errorfeedback.storage.packing import fingerprint, pack, unpack

L2 = np.random.default_rng(5).random(9)


def plain(loss):
    return pair(loss, n=6, d=9 if loss != "softmax" else 3, fill=0.4)[0]


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
def test_its_mean_is_f_plus_R_and_its_curvature_is_that_of_every_client(loss):
    inner = plain(loss)
    problem, x = ef.ridged(inner, L2), np.random.default_rng(1).standard_normal(9)
    assert problem.value(x) == pytest.approx(inner.value(x) + L2 @ x**2 / 2, rel=1e-14)
    np.testing.assert_allclose(problem.gradient(x), inner.gradient(x) + L2 * x, rtol=1e-12, atol=1e-14)
    values, out = np.empty(6), Lifted(np.empty(problem.support.size))
    problem.gradients(Point(x), out, values=values)
    np.testing.assert_allclose(values, problem.values_at(x), rtol=1e-14)
    k, s = problem.curvature(), problem.support
    base = inner.curvature()
    w = L2[s.indices] * 6 / s.counts[s.indices]
    for i in range(6):
        theirs, ours = (bound_of(each, i, s) for each in (base, k))
        np.testing.assert_allclose(ours, theirs + np.diag(w[s.indptr[i] : s.indptr[i + 1]][:: k.outputs]), atol=1e-13)


def bound_of(k, i, s):
    """H_i on J_i; of one block, where there are several outputs."""
    rows, ends = slice(k.rows[i], k.rows[i + 1]), s.by_feature.indptr
    A = k.lifted.toarray()[rows, ends[i] : ends[i + 1]]
    np.testing.assert_array_equal(k.A.toarray()[rows][:, s.by_feature.indices[ends[i] : ends[i + 1]]], A)
    return A.T @ (k.weights[rows, None] * A)


def test_its_hessians_are_the_derivatives_of_its_gradients():
    problem = ef.ridged(scaled(plain("logistic")), L2)
    x, s = np.random.default_rng(2).standard_normal(9), problem.support
    v = Lifted(np.random.default_rng(3).standard_normal(s.size))
    own, h = s.gather(x), 1e-6
    ahead, behind = (Lifted(np.empty(s.size)) for _ in range(2))
    problem.gradients(Point(own=Lifted(own + h * v)), ahead)
    problem.gradients(Point(own=Lifted(own - h * v)), behind)
    product = problem.hessian_times(Point(x), v)
    np.testing.assert_allclose(product, (ahead - behind) / (2 * h), rtol=1e-6, atol=1e-8)
    sizes, u = s.sizes, s.gather(problem.hessian_units)
    triangles = Lifted(np.empty(int((sizes * (sizes + 1) // 2).sum())))
    problem.hessians(Point(x), triangles)
    start = 0
    for i, m in enumerate(sizes):
        H, here = np.zeros((m, m)), slice(s.indptr[i], s.indptr[i + 1])
        H[np.triu_indices(m)] = triangles[start : start + m * (m + 1) // 2]
        H = (H + np.triu(H, 1).T) / np.outer(u[here], u[here])
        np.testing.assert_allclose(H @ v[here], product[here], rtol=1e-10, atol=1e-12)
        start += m * (m + 1) // 2


def test_quadratics_above_it_are_those_above_f_with_the_penalty_inside():
    inner, x = scaled(plain("logistic")), np.random.default_rng(2).standard_normal(9)
    sizes = inner.support.sizes
    told = [Lifted(np.empty(int((sizes * (sizes + 1) // 2).sum()))) for _ in range(4)]
    for k, (problem, above) in enumerate((p, a) for p in (inner, ef.ridged(inner, L2)) for a in (False, True)):
        problem.hessians(Point(x), told[k], above)
    np.testing.assert_allclose(told[3] - told[1], told[2] - told[0], rtol=1e-9, atol=1e-12)
    assert np.abs(told[3] - told[2]).max() > 1e-3


@pytest.mark.parametrize("method", [ef.DGD(), ef.EF21(ef.TopK(2))], ids=str)
def test_shards_checkpoints_and_packing_change_no_bit(method, tmp_path):
    problem = ef.ridged(plain("logistic"), L2)
    whole = ef.solve(problem, method, ef.InverseL() if method == ef.DGD() else ef.RareFeatures(), rounds=30)
    again = ef.solve(
        problem, method, whole.stepsize, rounds=30, engine=ef.Local(3), checkpoint=ef.Checkpoint(tmp_path, every=10)
    )
    assert np.array_equal(whole.x, again.x)
    assert np.array_equal(ef.resume(tmp_path).x, whole.x)
    assert fingerprint(unpack(*pack(problem))) == fingerprint(problem)
    assert whole.certificate.verdict == ("held" if method != ef.DGD() else whole.certificate.verdict)


def test_it_has_the_minimum_that_the_server_s_penalty_has():
    inner = plain("logistic")
    within = ef.solve(ef.ridged(inner, L2), ef.DGD(), ef.InverseL(), rounds=4000, every=4000)
    added = ef.solve(inner, ef.DGD(), ef.InverseL(), rounds=4000, every=4000, prox=ef.ElasticNet(l2=L2))
    np.testing.assert_allclose(within.x, added.x, atol=1e-10)
    assert within.history["f"][-1] == pytest.approx(added.history["f"][-1], rel=1e-12)


@pytest.mark.parametrize(("l2", "why"), [(-1.0, "not negative"), (np.nan, "finite"), (np.ones(4), r"has shape \(4,\)")])
def test_penalties_that_make_no_sense_are_refused(l2, why):
    with pytest.raises(ValueError, match=why):
        ef.ridged(plain("squared"), l2)


def test_what_wraps_a_problem_changes_its_typical_curvature_as_its_bound():
    """At every position: S^2 H with scales, H + w with a penalty; a Poisson loss has the one, and not the other."""
    rng = np.random.default_rng(0)
    inner = ef.poisson(rng.standard_normal((12, 3)) * [1.0, 9.0, 0.2], rng.integers(0, 5, 12), clients=3)

    def diagonal(problem):
        k = problem.typical_curvature()
        return k.lifted.power(2).T @ k.weights

    scaled, ridged = ef.scaled(inner), ef.ridged(inner, 0.5)
    scales = inner.support.gather(scaled.scale)
    assert len(set(scales)) > 1
    np.testing.assert_allclose(diagonal(scaled), scales**2 * diagonal(inner), rtol=1e-12)
    np.testing.assert_allclose(diagonal(ridged), diagonal(inner) + ridged.weights, rtol=1e-12)
