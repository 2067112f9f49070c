"""The theorems of RareHeavyBall, PrimalStep, RarePAGE and RareTwoWay (docs/theory.md, sections 19 to 22): with compressors
(1 +- sqrt(1 - alpha)) v the change of Psi is a quadratic form in the state. No eigenvalue of it is positive; with longer
steps one is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np
import pytest
from theory.instances import node_at
from theory.quadratic_form import hessians
from theory_problems import random_problem

import errorfeedback as ef
from errorfeedback.core import Round
from errorfeedback.keyed import sampled_rows
from errorfeedback.smoothness.sampled_smoothness import sampled_smoothness
from errorfeedback.stepsizes.proved import largest_root

ETAS = (0.0, 0.3, 0.9)


def square(u):
    return u.T @ u


def top(form):
    return float(np.linalg.eigvalsh((form + form.T) / 2)[-1])


@dataclass(frozen=True, eq=False)
class Clients:
    """Quadratics, and the coordinates of a state (grad f(x), all u_i, one more vector of R^d)."""

    H: np.ndarray
    theory: ef.Theory

    def coordinates(self, errors=1):
        support, d = self.theory.support, self.theory.d
        own = [np.eye(d)[support.features(i)] for i in range(support.n)]
        sizes = [len(J) for J in own] * errors
        ends = np.cumsum([d, *sizes, d])
        p, *parts, extra = np.split(np.eye(ends[-1]), ends[:-1])
        u = [own[k % support.n].T @ part for k, part in enumerate(parts)]
        return p, u, extra


def clients(problem, compressor):
    return Clients(hessians(problem), ef.analyse(problem, compressor))


def shared_feature(n, rows=1):
    """Clients with the same Hessian along (1, 1) and nothing across: the proofs' inequalities are equalities."""
    return ef.least_squares(np.ones((n * rows, 2)), np.zeros(n * rows), clients=n)


RANDOM = [(seed, sharing) for seed in range(3) for sharing in ("none", "some", "all")]


def ball_rise(c, proof, eta):
    """Psi+ - Psi + (b/2)||grad f||^2 for EF21-HB, in units of b."""
    n, b, H = c.theory.n, proof.long, c.H.mean(axis=0)
    p, u, v = c.coordinates()
    new = eta * v + p + sum(u) / n
    step = -proof.gamma * new
    z, z_new = -b * eta * v, step - b * eta * new  # from x
    left = np.sqrt(1 - c.theory.alpha)
    form = p.T @ (z_new - z) + (z_new.T @ H @ z_new - z.T @ H @ z) / 2 + b / 2 * square(p)
    form += proof.of_direction * (square(new) - square(v))
    for i in range(n):
        form += proof.of_error * (square(left * (c.H[i] @ step - u[i])) - square(u[i]))
    return top(form) / b


def ball_proof(theory, eta, factor=1.0):
    """That of a problem whose constants are smaller by the factor, so that gamma is larger by it."""
    proof = ef.RareHeavyBall(eta).proof_of(theory)
    return type(proof)(*(factor * getattr(proof, each) for each in proof.__dataclass_fields__))  # all are in units of gamma


@pytest.mark.parametrize("eta", ETAS)
def test_heavy_ball_psi_falls_from_every_state_of_random_quadratics(eta):
    for seed, sharing in RANDOM:
        c = clients(random_problem("least squares", seed, sharing), ef.TopK(1))
        assert ball_rise(c, ball_proof(c.theory, eta), eta) <= 1e-9


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("eta", ETAS)
def test_heavy_ball_is_tight_in_gamma_and_in_every_weight(n, eta):
    c = clients(shared_feature(n), ef.TopK(1))
    proof = ball_proof(c.theory, eta)
    assert ball_rise(c, proof, eta) <= 1e-9
    assert ball_rise(c, ball_proof(c.theory, eta, 1.01), eta) > 1e-6
    for weight in ("of_error", "of_direction") if eta else ("of_error",):
        for factor in (0.97, 1.03):
            other = replace(proof, **{weight: factor * getattr(proof, weight)})
            assert ball_rise(c, other, eta) > 1e-9, (weight, factor)


def test_heavy_ball_without_momentum_is_ef21_and_its_bound_holds():
    problem = random_problem("logistic + penalty", 1)
    theory = ef.analyse(problem, ef.TopK(1))
    M = theory.L_plus * np.sqrt(theory.c / theory.n) * theory.xi
    assert ef.RareHeavyBall(0.0).gamma(theory) == pytest.approx(largest_root(theory.L, M))
    rule, ball, x0 = ef.RareHeavyBall(0.5), ef.HeavyBall(0.5), np.ones(problem.d)
    run = ef.solve(problem, ef.EF21(ef.TopK(1), "gradient"), rule, direction=ball, rounds=200, x0=x0)
    proof = rule.proof_of(theory)
    assert run.history["gamma"][0] == proof.gamma
    assert run.history["grad_norm2"][:-1].mean() <= proof.bound(200, run.history["f"][0])


def test_rules_of_combinations_refuse_others():
    problem, method = random_problem("logistic", 1), ef.EF21(ef.TopK(1))
    for options in ({}, {"direction": ef.HeavyBall(0.4)}):
        with pytest.raises(ValueError, match=r"is a rule for EF21 with ef\.HeavyBall\(0\.5\)"):
            ef.solve(problem, method, ef.RareHeavyBall(0.5), rounds=1, **options)
    with pytest.raises(ValueError, match="PrimalStep is a rule for DGD along its estimate"):
        ef.solve(problem, method, ef.PrimalStep(ef.TopK(1)), rounds=1, downlink=ef.Primal(ef.TopK(1)))
    for downlink in (ef.Whole(), ef.Primal(ef.TopK(2))):
        with pytest.raises(ValueError, match="has no theorem for the downlink"):
            ef.solve(problem, ef.DGD(), ef.PrimalStep(ef.TopK(1)), rounds=1, downlink=downlink)
    with pytest.raises(ValueError, match=r"eta = 1\.0; the share of the last direction"):
        ef.RareHeavyBall(1.0)


def primal_rise(H, alpha, gamma, weight=1.0):
    """Psi+ - Psi + (gamma/2)||grad f(x)||^2 for EF21-P with gradient descent; the state is (grad f(x), x - w)."""
    d, L, theta = len(H), np.linalg.norm(H, 2), 1 - np.sqrt(1 - alpha)
    p, e = np.eye(d, 2 * d), np.eye(d, 2 * d, d)
    step = -gamma * (p - H @ e)
    e_new = np.sqrt(1 - alpha) * (e + step)
    form = p.T @ step + step.T @ H @ step / 2 + gamma / 2 * square(p)
    return top(form + weight * gamma * L**2 / (2 * theta) * (square(e_new) - square(e))) / gamma


@pytest.mark.parametrize("k", [1, 3])
def test_primal_step_is_the_longest_for_which_psi_falls(k):
    for seed, sharing in RANDOM:
        problem = random_problem("least squares", seed, sharing)
        H, gamma = hessians(problem).mean(axis=0), ef.PrimalStep(ef.TopK(k)).gamma(ef.analyse(problem))
        assert primal_rise(H, min(k / problem.d, 1), gamma) <= 1e-9
    problem = ef.least_squares(np.diag([2.0, 2.0, 2.0, 2.0]), np.zeros(4), clients=1)  # along every direction
    H, gamma = hessians(problem).mean(axis=0), ef.PrimalStep(ef.TopK(k)).gamma(ef.analyse(problem))
    assert primal_rise(H, k / 4, gamma) <= 1e-9
    assert primal_rise(H, k / 4, 1.01 * gamma) > 1e-6
    assert min(primal_rise(H, k / 4, gamma, weight) for weight in (0.97, 1.03)) > 1e-9


def test_primal_descends_where_a_longer_step_does_not():
    """Four equal features, one of them told in a round: the step of gradient descent is too long for that."""
    problem = ef.least_squares(np.eye(4) * 2, np.zeros(4), clients=1)
    options = {"rounds": 400, "x0": np.array([1.0, 1.1, 0.9, 1.05]), "downlink": ef.Primal(ef.TopK(1))}
    runs = [
        ef.solve(problem, ef.DGD(), rule, **options) for rule in (ef.PrimalStep(), ef.Constant(1 / ef.analyse(problem).L))
    ]
    assert runs[0].history["f"][-1] < 1e-12
    assert runs[1].history["f"][-1] > 1e3 * runs[0].history["f"][-1]
    assert runs[0].certificate.verdict == "not applicable"


def two_way_rise(c, proof, alpha, over=(1, 1)):
    """Psi+ - Psi + (gamma/2)||grad f||^2 for EF21-BC, in units of gamma, with the compressors (1 +- sqrt(1 - alpha)) v,
    which attain their contraction everywhere; the worst for the server are clients that say too much."""
    n, H = c.theory.n, c.H.mean(axis=0)
    q, of_server = (sign * np.sqrt(1 - each) for sign, each in zip(over, (c.theory.alpha, alpha), strict=True))
    p, u, e = c.coordinates()
    step = -proof.gamma * (p + sum(u) / n + e)
    missing = [c.H[i] @ step - u[i] for i in range(n)]
    untold = of_server * ((1 + q) * sum(missing) / n - e)
    form = p.T @ step + step.T @ H @ step / 2 + proof.gamma / 2 * square(p) + proof.of_untold * (square(untold) - square(e))
    for i in range(n):
        form += proof.of_error * (square(q * missing[i]) - square(u[i]))
    return top(form) / proof.gamma


@pytest.mark.parametrize("k", [1, 3])
def test_two_way_psi_falls_from_every_state_of_random_quadratics(k):
    for (seed, sharing), over in product(RANDOM, [(1, 1), (-1, 1), (-1, -1)]):
        c = clients(random_problem("least squares", seed, sharing), ef.TopK(1))
        proof = ef.RareTwoWay(ef.TopK(k)).proof_of(c.theory)
        assert two_way_rise(c, proof, min(k / c.theory.d, 1), over) <= 1e-9


@pytest.mark.parametrize("n", [1, 3])
def test_two_way_is_tight_in_gamma_and_in_every_weight(n):
    c = clients(shared_feature(n), ef.TopK(1))
    proof = ef.RareTwoWay(ef.TopK(1)).proof_of(c.theory)
    assert two_way_rise(c, proof, 0.5) <= 1e-9
    longer = type(proof)(*(1.01 * getattr(proof, each) for each in proof.__dataclass_fields__))
    assert two_way_rise(c, longer, 0.5) > 1e-4
    for weight, factor in product(("of_error", "of_untold"), (0.97, 1.03)):
        assert two_way_rise(c, replace(proof, **{weight: factor * getattr(proof, weight)}), 0.5) > 1e-6, (weight, factor)


def test_two_way_is_ef21_where_the_server_tells_everything_and_its_bound_holds():
    problem = random_problem("logistic + penalty", 1)
    theory, d = ef.analyse(problem, ef.TopK(1)), problem.d
    M = theory.L_plus * np.sqrt(theory.c / theory.n) * theory.xi
    assert ef.RareTwoWay(ef.TopK(d)).gamma(theory) == pytest.approx(largest_root(theory.L, M))
    down, x0 = ef.TopK(d // 2), np.ones(d)
    rule, method = ef.RareTwoWay(down), ef.EF21(ef.TopK(1), "zero")
    run = ef.solve(problem, method, rule, downlink=ef.Compressed(down), rounds=200, x0=x0)
    proof = rule.proof_of(theory)
    psi = run.history["f"][0] + proof.of_error * problem.support.norms2(problem.gradients_at(x0)).sum()
    assert run.history["grad_norm2"][:-1].mean() <= proof.bound(200, psi)
    with pytest.raises(ValueError, match="RareTwoWay is a rule for EF21 along its estimate"):
        ef.solve(problem, ef.DGD(), rule, downlink=ef.Compressed(down), rounds=1)
    with pytest.raises(ValueError, match="has no theorem for the downlink"):
        ef.solve(problem, method, rule, downlink=ef.Compressed(ef.TopK(d)), rounds=1)


def page_rise(theory, H, proof, p, S, factor=1.0):
    """E Psi+ - Psi + (gamma/2)||grad f||^2 for one client and f = H x^2/2, with a batch whose differences have the variance
    S^2 ||x+ - x||^2; the state is (grad f, P, Q)."""
    gamma, left = factor * proof.gamma, 1 - theory.alpha
    grad, P, Q = (row[None] for row in np.eye(3))
    step = -gamma * (grad + P + Q)
    D, noise = H * step, S**2 * square(step)
    form = grad.T @ step + H * square(step) / 2 + gamma / 2 * square(grad)
    unsent = left * (p * square(D - Q - P) + (1 - p) * (square(D - P) + noise)) - square(P)
    sampling = (1 - p) * (square(Q) + noise) - square(Q)
    return top(form + gamma / 2 * (proof.of_unsent * unsent + proof.of_sampling * sampling)) / gamma


@pytest.mark.parametrize("p", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("batch", [1, 2])
def test_page_psi_falls_from_every_state_and_a_tenth_more_is_too_much(p, batch):
    """The proof bounds the errors one by one, so it is not tight to the percent; where most gradients are whole, neither are
    weights that are off by a tenth."""
    problem = shared_feature(1, rows=5)
    theory, method = ef.analyse(problem, ef.TopK(1)), ef.EF21PAGE(ef.TopK(1), p=p, batch=batch)
    proof, S = ef.RarePAGE().proof_of(theory, method), sampled_smoothness(problem, batch)
    assert proof.gamma == ef.RarePAGE().gamma(theory, method)
    assert page_rise(theory, theory.L, proof, p, S) <= 1e-9
    assert page_rise(theory, theory.L, proof, p, S, 1.1) > 1e-2
    for weight, factor in product(("of_unsent", "of_sampling") if p == 0.9 else (), (0.9, 1.1)):
        other = replace(proof, **{weight: factor * getattr(proof, weight)})
        assert page_rise(theory, theory.L, other, p, S) > 1e-5, (weight, factor)


def every_choice(problem, method, t):
    """Seeds that bring every combination of the clients' coins and batches, and its probability."""
    seeds = {}
    for seed in range(4_000):
        ctx = Round(t, seed)
        heads = tuple(method.takes_all(problem.support, ctx).tolist())
        chosen, _ = sampled_rows(ef.Sample(method.batch, ctx), problem.rows, 0)
        seeds.setdefault((heads, tuple(chosen.tolist())), seed)
    choices = [(seed, np.prod([method.p if head else 1 - method.p for head in heads])) for (heads, _), seed in seeds.items()]
    assert len(choices) == 6**problem.n
    return [(seed, chance / 3**problem.n) for seed, chance in choices]


def page_psi(problem, theory, proof, x, v, g):
    s = problem.support
    errors = proof.of_unsent * s.norms2(g - v) + proof.of_sampling * s.norms2(v - problem.gradients_at(x))
    return problem.value(x) + proof.gamma * theory.c / (2 * theory.n**2) * errors.sum()


@pytest.mark.parametrize("sharing", ["none", "some"])
@pytest.mark.parametrize("p", [0.1, 0.7])
def test_page_holds_in_expectation_for_the_library_s_clients(sharing, p):
    """Over all coins and batches, from random states of two clients with three rows each."""
    rng = np.random.default_rng(0)
    A = random_problem("least squares", 5, sharing).A.toarray()[:6]
    problem = ef.least_squares(A[:, np.any(A, axis=0)] + 0.0, rng.standard_normal(6), clients=[0, 0, 0, 1, 1, 1])
    theory, method = ef.analyse(problem, ef.TopK(1)), ef.EF21PAGE(ef.TopK(1), p=p, batch=1)
    proof, choices = ef.RarePAGE().proof_of(theory, method), every_choice(problem, method, 1)
    for _ in range(3):
        x, v, g = rng.standard_normal(problem.d), *rng.standard_normal((2, problem.support.size))
        x_new = x - proof.gamma * problem.support.scatter(g) / problem.n
        after = 0.0
        for seed, chance in choices:
            state = (v.copy(), g.copy(), problem.support.gather(x).copy())
            _, (v_new, g_new, _) = method.client(state, node_at(problem, method, x_new), Round(1, seed))
            after += chance * page_psi(problem, theory, proof, x_new, v_new, g_new)
        before, gradient = page_psi(problem, theory, proof, x, v, g), problem.gradient(x)
        assert after <= before - proof.gamma / 2 * gradient @ gradient + 1e-12 * before


def test_the_sampled_smoothness_bounds_the_variance_of_differences_and_is_near():
    """Over all batches of two of four rows. What is dropped is the square of the mean: half, where half of the rows move."""
    rng = np.random.default_rng(1)
    for A in (rng.standard_normal((8, 3)), np.tile(np.diag([2.0, 2.0]), (4, 1))):
        problem = ef.least_squares(A, np.zeros(8), clients=2)
        S2, ratios = sampled_smoothness(problem, 2) ** 2, []
        for s in [*np.eye(problem.d), *rng.standard_normal((20, problem.d))]:
            moved = [2 * (rows @ s)[:, None] * rows for rows in (A[:4], A[4:])]
            pairs = [rows[[i, j]].mean(axis=0) - rows.mean(axis=0) for rows in moved for i, j in combinations(range(4), 2)]
            ratios.append(np.sum(np.square(pairs)) / len(pairs) / (s @ s))
        assert max(ratios) <= S2
    assert max(ratios) == pytest.approx(S2 / 2, rel=1e-9)


def test_page_is_ef21_where_nothing_is_left_to_chance():
    problem = random_problem("least squares", 3)
    theory = ef.analyse(problem, ef.TopK(1))
    M = theory.L_plus * np.sqrt(theory.c / theory.n) * theory.xi
    for method in (ef.EF21PAGE(ef.TopK(1), p=1.0), ef.EF21PAGE(ef.TopK(1), p=0.2, batch=100)):
        assert ef.RarePAGE().gamma(theory, method) == pytest.approx(largest_root(theory.L, M))
    with pytest.raises(ValueError, match="p = 0; the probability of a whole gradient"):
        ef.EF21PAGE(ef.TopK(1), p=0)


def test_the_weighted_rule_is_never_below_ef21_ws_step():
    """EF21-W (Richtarik, Gasanov, Burlachenko 2024): 1/(L + mean(L_i) xi(alpha)), which knows nothing of c."""
    for seed, sharing in RANDOM:
        theory = ef.analyse(random_problem("logistic + penalty", seed, sharing), ef.TopK(1))
        assert ef.Weighted().gamma(theory) >= 1 / (theory.L + theory.L_i.mean() * theory.xi) * (1 - 1e-9)
