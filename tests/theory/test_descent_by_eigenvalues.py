"""Every proved rule, over all states at once (see `quadratic_form`): on random quadratics no eigenvalue is positive; on
instances where every step of its proof is an equality one percent more is too much, and so is one percent less of any part.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from theory.quadratic_form import Quadratics, at, hessians, indefinite, least_squares, of
from theory_problems import random_compressors, random_problem, rise

import errorfeedback as ef
from errorfeedback.stepsizes.best import rules
from errorfeedback.stepsizes.proved import Proved

RULES = [type(rule) for rule in rules(ef.EF21(ef.TopK(1)))]
L_I = np.array([1.0, 3.0, 0.5, 2.0])
ALPHA = (0.1, 0.4, 0.25, 0.05)
SMALL = 1e-4
"""An alpha so small that 1/(L + M) is within a ten-thousandth of the exact root (xi = 20,000)."""


def on(feature: int, curvatures, d: int) -> np.ndarray:
    """One client per curvature, all with that one feature."""
    H = np.zeros((len(curvatures), d, d))
    H[:, feature, feature] = curvatures
    return H


def groups(alpha: float, common: bool = False) -> Quadratics:
    """Clients 0, 1, 2 share a feature, clients 3, 4, 5 another, all with L_i = 1 (and all six one more, sent exactly)."""
    H = np.concatenate([on(0, [1.0] * 3, 3), on(1, [1.0] * 3, 3)])
    H[:, 2, 2] = 1e-3 * common
    return least_squares(H if common else H[:, :2, :2], [alpha] * 6, [2] if common else [])


def rank_one(alpha) -> Quadratics:
    """H_i = l_i a a' on a feature that is sent exactly and one that is not."""
    a = np.array([2.0, 0.7])
    return least_squares(L_I[:, None, None] * np.outer(a, a), alpha, [0])


def one_row(alpha) -> Quadratics:
    """The same as logistic regression with a row per client: H_i is attained at x = 0."""
    rows = np.sqrt(L_I)[:, None] * np.array([2.0, 0.7])
    problem = ef.logistic(rows, [1, -1, 1, -1], np.arange(4))
    twin = rank_one(alpha)
    return of(hessians(problem), problem, twin.compressor)


def steep_alone() -> Quadratics:
    """A shared feature with the curvatures 0.8 L_i, and one feature per client where it has its L_i."""
    H = np.concatenate([on(0, 0.8 * L_I, 5)])
    H[np.arange(4), np.arange(1, 5), np.arange(1, 5)] = L_I
    return least_squares(H, [0.3] * 4)


def swaps() -> Quadratics:
    """Non-convex: client i turns the common feature 0 into its rare one, H_i = L_i (e_0 e_j' + e_j e_0'); clients 0 and 1
    share feature 1, and client 2 is as steep as both. So the error is over the rare, the change over all features."""
    H = np.zeros((3, 3, 3))
    for i, (j, L) in enumerate(((1, 1.0), (1, 2.0), (2, 3.0))):
        H[i, 0, j] = H[i, j, 0] = L
    return indefinite(H, [SMALL] * 3, [0])


TIGHT = {
    "EF21Standard, all share everything": (ef.EF21Standard, least_squares(on(0, [1.0] * 4, 1), [SMALL] * 4)),
    "RareFeatures, groups": (ef.RareFeatures, groups(SMALL)),
    "ExactRoot, groups": (ef.ExactRoot, groups(0.3)),
    "ExactRoot, groups and a common feature": (ef.ExactRoot, groups(0.3, common=True)),
    "Weighted, unequal L_i and alpha_i": (ef.Weighted, least_squares(on(0, L_I, 1), ALPHA)),
    "Weighted, a client that sends everything": (ef.Weighted, least_squares(on(0, L_I, 1), (0.1, 1.0, 0.25, 0.05))),
    "Weighted, penalty": (ef.Weighted, least_squares(on(0, L_I, 1), ALPHA, lam=0.7)),
    "Weighted, non-convex with a common feature": (ef.Weighted, swaps()),
    "Convex, unequal L_i": (ef.Convex, least_squares(on(0, L_I, 1), [0.2] * 4)),
    "Convex, groups and a common feature": (ef.Convex, groups(0.3, common=True)),
    "Convex, rank one with a common feature": (ef.Convex, rank_one([0.2] * 4)),
    "Convex, logistic with a common feature": (ef.Convex, one_row([0.2] * 4)),
    "Spectral, steep where alone": (ef.Spectral, steep_alone()),
    "Spectral, rank one with a common feature": (ef.Spectral, rank_one(ALPHA)),
    "Spectral, logistic with a common feature": (ef.Spectral, one_row(ALPHA)),
    "Spectral, groups and a common feature": (ef.Spectral, groups(0.3, common=True)),
    "Spectral, penalty": (ef.Spectral, least_squares(on(0, [1.0] * 4, 1), ALPHA, lam=0.7)),
}
tight = pytest.mark.parametrize("name", TIGHT)


def test_every_rule_has_a_tight_instance() -> None:
    assert {rule for rule, _ in TIGHT.values()} == set(RULES)


@tight
def test_one_percent_more_is_too_much(name: str) -> None:
    rule, quadratics = TIGHT[name]
    assert 1.0 - 2e-6 <= quadratics.slack(rule()) <= 1.0001
    assert quadratics.holds(quadratics.proof(rule()))
    assert not quadratics.holds(quadratics.proof(rule(), 1.01)), "negative control"


@tight
@pytest.mark.parametrize("factor", [0.97, 1.03])
def test_the_weights_of_psi_cannot_be_three_percent_other(name: str, factor: float) -> None:
    rule, quadratics = TIGHT[name]
    proof = quadratics.proof(rule())
    assert not quadratics.holds(replace(proof, weights=factor * proof.weights))


REACHED = [
    name
    for name, (_, quadratics) in TIGHT.items()
    if quadratics.theory.L_plus_exact and np.linalg.matrix_rank(quadratics.H.mean(axis=0)) == quadratics.problem.d
]
"""Least squares in which every gradient belongs to a point."""


@pytest.mark.parametrize("name", REACHED)
def test_the_worst_state_is_one_of_the_library(name: str) -> None:
    """Its own clients, losses and compressor, one step from the eigenvector's state: Psi rises."""
    rule, quadratics = TIGHT[name]
    proof = quadratics.proof(rule(), 1.01)
    _, p, u = quadratics.worst(proof)
    assert rise(quadratics.problem, quadratics.compressor, proof, at(quadratics, p, u)) > 1e-8
    smaller = replace(proof, gamma=proof.gamma / 1.01)
    assert rise(quadratics.problem, quadratics.compressor, smaller, at(quadratics, p, u)) <= 1e-12


@pytest.mark.parametrize("seed", range(10))
def test_weighted_is_tight_on_all_supports_when_clients_are_round(seed: int) -> None:
    """H_i = L_i I on a random J_i, equal alpha: L and M are sums over the same feature, whatever the supports are."""
    rng = np.random.default_rng(seed)
    n, d = 6, 8
    owned = rng.random((n, d)) < 0.4
    owned[np.arange(n), np.arange(n)] = owned[0, n:] = True
    H = 10 ** rng.uniform(-1, 1, n)[:, None, None] * owned[:, :, None] * np.eye(d)
    quadratics = least_squares(H, [float(rng.uniform(0.05, 0.9))] * n)
    assert quadratics.slack(ef.Weighted()) == pytest.approx(1.0, abs=3e-6)
    assert quadratics.slack(ef.Spectral()) == pytest.approx(1.0, abs=3e-6)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("sharing", ["none", "some", "all"])
def test_no_state_of_a_random_problem_lets_psi_rise(rule: type[Proved], sharing: str) -> None:
    for seed in range(5):
        problem = random_problem("least squares", seed, sharing)
        for compressor in random_compressors(problem, seed):
            quadratics = of(hessians(problem), problem, compressor)
            assert quadratics.holds(quadratics.proof(rule())), (seed, compressor)


@pytest.mark.parametrize("rule", [ef.EF21Standard, ef.RareFeatures, ef.Weighted])
@pytest.mark.parametrize("common", [(), (0, 3)])
def test_no_state_of_random_nonconvex_clients_lets_psi_rise(rule: type[Proved], common: tuple[int, ...]) -> None:
    """Indefinite Hessians, of which only the norms are known."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        owned = rng.random((5, 6)) < 0.5
        owned[np.arange(5), np.arange(5)] = owned[0] = True
        B = rng.standard_normal((5, 6, 6)) * owned[:, :, None] * owned[:, None, :]
        quadratics = indefinite(B + B.transpose(0, 2, 1), rng.uniform(0.02, 1.0, 5).tolist(), common)
        assert quadratics.holds(quadratics.proof(rule())), seed
