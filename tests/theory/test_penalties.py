"""EF21-Prox (docs/theory.md, section 23): x+ = prox_{gamma R}(x - gamma g). Lemma 9 and every rule of EF21 hold for f + R,
with grad f(x) + w in place of grad f(x), where w = (x - x+)/gamma - g is in the subdifferential of R at x+.
"""

from __future__ import annotations

import numpy as np
import pytest
from theory.quadratic_form import Quadratics, least_squares

import errorfeedback as ef

RULES = (ef.RareFeatures(), ef.ExactRoot(), ef.Weighted(), ef.Convex(), ef.Spectral())
FREE = ef.ElasticNet()


def stepped(x, g, gamma, penalty):
    """x+ and w."""
    new = x - gamma * g
    penalty.step(new, gamma)
    return new, (x - new) / gamma - g


def slack_of_lemma_9(H, x, slope, g, gamma, L, penalty):
    """Its right-hand side without its left-hand side, for the quadratic with this Hessian and this gradient at x."""
    new, w = stepped(x, g, gamma, penalty)
    h = new - x
    rise = slope @ h + h @ H @ h / 2 + penalty.value(new) - penalty.value(x)
    drop = gamma / 2 * np.sum((slope + w) ** 2) + (1 / (2 * gamma) - L / 2) * (h @ h)
    return gamma / 2 * np.sum((g - slope) ** 2) - drop - rise


@pytest.mark.parametrize("seed", range(20))
def test_lemma_9_holds_for_the_sum_with_a_penalty(seed):
    draw = np.random.default_rng(seed)
    A = draw.standard_normal((5, 5))
    H, L = (A + A.T) / 2, np.abs(np.linalg.eigvalsh((A + A.T) / 2)).max()
    x, slope, g = draw.standard_normal((3, 5)) * draw.integers(0, 2, (3, 5))
    penalty = ef.ElasticNet(draw.uniform(0, 1), draw.uniform(0, 1))
    for gamma in (0.01, 0.3, 3.0):
        assert slack_of_lemma_9(H, x, slope, g, gamma, L, penalty) >= -1e-12
        new, w = stepped(x, g, gamma, penalty)
        np.testing.assert_allclose(penalty.shortest_subgradient(new, -w), 0, atol=1e-12)  # w is a subgradient there


def test_lemma_9_is_an_equality_where_no_sign_changes():
    draw = np.random.default_rng(0)
    x, slope, g = 10 * np.sign(draw.standard_normal(5)), draw.standard_normal(5), draw.standard_normal(5)
    for penalty, L in ((ef.ElasticNet(l1=0.3), 2.0), (ef.ElasticNet(l1=0.3, l2=0.5), 1.5)):  # l2 counts as -L
        assert slack_of_lemma_9(2.0 * np.eye(5), x, slope, g, 0.4, L, penalty) == pytest.approx(0, abs=1e-12)
        assert slack_of_lemma_9(2.0 * np.eye(5), x, slope, g, 0.4, 0.99 * L, penalty) < -1e-3


def rise(q: Quadratics, proof, x, p, u, penalty):
    """Psi+ - Psi + (gamma/2)||grad f(x) + w||^2 from a state; what is compressed loses all that its alpha allows. p is the
    gradient of f."""
    n, gamma = len(q.H), proof.gamma
    new, w = stepped(x, p + u.mean(axis=0), gamma, penalty)
    h = new - x
    left = np.sqrt(1 - q.compressor.alpha(q.problem.support))
    change = p @ h + h @ q.H.mean(axis=0) @ h / 2 + penalty.value(new) - penalty.value(x)
    errors = sum(proof.weights[i] * (np.sum((left[i] * (q.H[i] @ h - u[i])) ** 2) - np.sum(u[i] ** 2)) for i in range(n))
    return change + gamma / 2 * (errors + np.sum((p + w) ** 2))


def random_quadratics(draw, n=4, d=3):
    own = draw.integers(0, 2, (n, 1, d))
    own[0], own[:, :, 0] = 1, 1  # somebody owns everything, and nobody nothing
    A = draw.standard_normal((n, d, d)) * own
    return least_squares(np.einsum("nij,nik->njk", A, A), draw.uniform(0.05, 0.9, n))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_with_a_penalty_psi_falls_from_random_states(rule):
    draw = np.random.default_rng(1)
    for _ in range(10):
        q = random_quadratics(draw)
        proof = q.proof(rule)
        for _ in range(20):
            x, p = draw.standard_normal((2, 3)) * draw.integers(0, 2, (2, 3))
            u = draw.standard_normal((4, 3)) * q.owned
            penalty = ef.ElasticNet(draw.uniform(0, 2, 3), draw.uniform(0, 2, 3))
            assert rise(q, proof, x, p, u, penalty) <= 1e-10


@pytest.mark.parametrize("rule", RULES[1:], ids=lambda rule: type(rule).__name__)
def test_with_a_penalty_the_step_is_tight(rule):
    """n equal clients on one feature and a state far from zero, where R is a line: one percent more and Psi rises."""
    q, penalty = least_squares(np.ones((3, 1, 1)), [0.3] * 3), ef.ElasticNet(l1=0.7)
    for factor, rises in ((1.0, False), (1.01, True)):
        proof = q.proof(rule, factor)
        _, p, u = q.worst(proof)
        change = rise(q, proof, np.full(1, 1e3), p - 0.7, u, penalty)
        assert change == pytest.approx(rise(q, proof, np.full(1, 1e3), p, u, FREE), abs=1e-9)
        assert (change > 1e-6) == rises
