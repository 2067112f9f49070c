"""Three point compressors (docs/theory.md, section 18): their inequality with every member's A and B, and the step of
`ThreePointStep`. Each is tight: with `Shrink`, which attains its contraction everywhere, constants that are a few percent
better fail.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from theory.quadratic_form import Shrink
from theory_problems import random_problem

import errorfeedback as ef
from errorfeedback.core import Round
from errorfeedback.sparsity.support import full_support
from errorfeedback.stepsizes.proved import largest_root
from errorfeedback.wire.message import nonzeros

N = 6001
"""States: each is a client of its own."""
SUPPORT = full_support(N, 2)


def family(little, much):
    """Every member, with compressors that keep little and much."""
    return {
        "EF21": ef.CLAG(little, zeta=0.0),
        "LAG": ef.CLAG(ef.Identity(), zeta=1.7),
        "CLAG, seldom lazy": ef.CLAG(little, zeta=0.5),
        "CLAG, often lazy": ef.CLAG(much, zeta=1.1),
        "EF21+": ef.EF21Plus(little),
        "3PCv1": ef.ThreePointV1(little),
        "3PCv2": ef.ThreePointV2(little, ef.RandK(1)),
        "3PCv3": ef.ThreePointV3(little, ef.CLAG(much, zeta=0.0)),
        "3PCv3 of LAG": ef.ThreePointV3(little, ef.CLAG(ef.Identity(), zeta=1.7)),
        "3PCv4": ef.ThreePointV4(little, much),
        "3PCv5": ef.ThreePointV5(little, p=0.3),
    }


METHODS = family(*(Shrink((alpha,) * N) for alpha in (0.3, 0.9)))
LIBRARY = family(ef.TopK(1), ef.TopK(1))
FAR = 1e3
"""Gradients are far from zero, where a fresh estimate is no good."""
each = pytest.mark.parametrize("name", METHODS)


def errors(method, h, y, z):
    """E||C_{h, y}(z) - z||^2 of every client, exactly: over both draws of RandK(1) on two features, and over the coin."""
    compress = method.compressor.on(SUPPORT)

    def error(seed):
        new = method.change(h, y, z, compress, Round(1, seed)).lifted() + h
        return SUPPORT.norms2(new - z)

    if isinstance(method, ef.ThreePointV2):
        return drawn(method.follower, error)
    if isinstance(method, ef.ThreePointV5):
        seeds = {method.synchronises(Round(1, seed)): seed for seed in range(50)}
        return method.p * error(seeds[True]) + (1 - method.p) * error(seeds[False])
    return error(0)


def drawn(follower, error):
    """The mean over a client's two draws, each of which some seed brings."""
    by_draw, operator = np.full((2, N), np.nan), follower.on(SUPPORT)
    for seed in range(30):
        chosen = operator(np.ones(2 * N), Round(1, seed)).positions % 2
        by_draw[chosen, np.arange(N)] = error(seed)[np.arange(N)]
    assert np.isfinite(by_draw).all()
    return by_draw.mean(axis=0)


@cache
def states():
    """(h, y, z): most on one line, at all ratios of h - y to z - y, the others at random."""
    angle = np.linspace(0, np.pi, N)
    line = np.stack([np.cos(angle), np.cos(angle), np.sin(angle), np.sin(angle)], axis=1)
    anywhere = np.random.default_rng(0).standard_normal((N, 4))
    u = np.where((np.arange(N) % 10 == 0)[:, None], anywhere, line)
    y = FAR + np.zeros((N, 2))
    return tuple((y + part).ravel() for part in (u[:, :2], 0.0, u[:, 2:]))


def excess(method, better_A=1.0, better_B=1.0):
    """How far the definition is broken, with A and B better by these factors."""
    h, y, z = states()
    A, B = (constant[0] for constant in method.constants(SUPPORT))
    bound = (1 - better_A * A) * SUPPORT.norms2(h - y) + B / better_B * SUPPORT.norms2(z - y)
    return float((errors(method, h, y, z) - bound).max())


@each
def test_the_inequality_holds_and_better_constants_do_not(name):
    method = METHODS[name]
    assert excess(method) <= 1e-8
    assert excess(method, better_B=1.03) > 1e-4
    A = method.constants(SUPPORT)[0][0]
    lazy = name == "CLAG, often lazy"  # where its A is tight its B is not, as max() says
    assert A == 1 or lazy or excess(method, better_A=1.03) > 1e-4


@each
def test_it_holds_for_the_library_s_own_compressors(name):
    """TopK in place of `Shrink`."""
    assert excess(LIBRARY[name]) <= 1e-8


def rise(method, factor=1.0, L=2.0):
    """The largest Psi+ - Psi + (gamma/2)||grad f||^2 over all states of f(x) = L x^2/2 with one client, in units of Psi:
    the gradient is cos, the error of g is sin of an angle."""
    angle = np.linspace(0, np.pi, N)
    p, u = np.cos(angle), np.sin(angle)
    A, B = (float(constant[0]) for constant in method.constants(SUPPORT))
    gamma = factor * largest_root(L, L * np.sqrt(B / A))
    s = -gamma * (p + u)
    lifted = [FAR + np.repeat(part, 2) / np.sqrt(2) for part in (p + u, p, p + L * s)]
    change = p * s + L * s**2 / 2 + gamma / 2 * p**2 + gamma / (2 * A) * (errors(method, *lifted) - u**2)
    return float(change.max()) / gamma


@each
def test_the_step_is_the_longest_for_which_psi_falls_from_every_state(name):
    """One client with L_i = L, c = n = 1: M = L sqrt(B/A)."""
    assert rise(METHODS[name]) <= 1e-7
    lazy = 1.1 if name == "CLAG, often lazy" else 1.02
    assert rise(METHODS[name], lazy) > 1e-5


def test_m_is_theorem_1s_with_ef21s_constants():
    problem = random_problem("least squares", 3)
    theory, rule = ef.analyse(problem, ef.TopK(1)), ef.ThreePointStep()
    M = theory.L_plus * np.sqrt(theory.c / theory.n) * theory.xi
    for method in (ef.CLAG(ef.TopK(1), zeta=0.0), ef.EF21Plus(ef.TopK(1))):
        assert rule.gamma(theory, method) == pytest.approx(largest_root(theory.L, M))
        weights = rule.proof(theory, method).weights * theory.theta_i  # q_i = c/n^2, as in Theorem 1
        assert weights == pytest.approx(theory.c / theory.n**2)
    assert rule.gamma(theory, ef.CLAG(ef.Identity(), 1.0)) < 1 / theory.L


RUNS = [
    ef.CLAG(ef.TopK(1), zeta=3.0),
    ef.CLAG(ef.Identity(), zeta=3.0),
    ef.EF21Plus(ef.TopK(1)),
    ef.ThreePointV1(ef.TopK(1)),
    ef.ThreePointV3(ef.TopK(1), ef.CLAG(ef.TopK(1), zeta=3.0)),
    ef.ThreePointV4(ef.TopK(1), ef.TopK(2)),
]


@pytest.mark.parametrize("method", RUNS, ids=str)
def test_certificates_hold_with_many_clients_and_rare_features(method):
    for sharing in ("none", "some", "all"):
        for kind in ("least squares + penalty", "logistic"):
            problem = random_problem(kind, 1, sharing)
            x0 = np.random.default_rng(0).standard_normal(problem.d)
            run = ef.solve(problem, method, ef.ThreePointStep(), rounds=60, x0=x0)
            assert run.certificate.verdict == "held"


@pytest.mark.parametrize("name", ["3PCv2", "3PCv5"])
def test_a_theorem_in_expectation_is_not_certified_on_one_run(name):
    run = ef.solve(random_problem("logistic", 1), LIBRARY[name], ef.ThreePointStep(), rounds=5)
    assert "holds in expectation" in run.certificate.reason


def test_lag_pays_four_bytes_for_silence_and_all_of_it_is_counted():
    """From the second round on a client sends its |J_i| values, or the head of a frame that is empty."""
    problem = random_problem("least squares", 2)
    s = problem.support
    method = ef.CLAG(ef.Identity(), zeta=2.0)
    node = ef.Node(problem, method.compressor.on(s), np.empty(s.size))
    node.stand(np.ones(problem.d))
    _, state = method.init(node, Round(0, 0))
    counts = []
    for t in range(1, 9):
        node.stand(np.full(problem.d, 1 + 0.1 * t))
        message, state = method.client(state, node, Round(t, 0))
        counts.append(message.frames.counts)
        assert message.frames.cost(0, 64).bits == sum(32 + 64 * k for k in counts[-1])
    assert {0} < set(np.ravel(counts)) <= {0, *s.sizes}
    assert {tuple(each) for each in counts[1::2]} != {tuple(each) for each in counts[::2]}


def test_ef21_plus_forgets_now_and_then():
    """Gradients of which one entry is large: C of it is nearer than what was tracked; both happen."""
    support = full_support(2, 3)
    h, z = np.array([1.0, 1.0, 1.0, 5.0, 5.0, 4.0]), np.array([9.0, 0.0, 0.1, 5.0, 5.0, 5.0])
    sent = ef.EF21Plus(ef.TopK(1)).change(h, h, z, ef.TopK(1).on(support), Round(1, 0))
    assert (h + sent.lifted()).tolist() == [9.0, 0.0, 0.0, 5.0, 5.0, 5.0]
    assert sent.frames.counts.tolist() == [3, 1]  # three entries change; no index where a client sends all it has
    assert sent.frames.cost(0, 64).bits == (32 + 192) + (32 + 72)


def test_a_sum_of_messages_is_sent_without_indices_where_that_is_shorter():
    """99 values of 100 with 7 bits of index each are longer than 100 values; 90 are not."""
    support = full_support(2, 100)
    u = np.ones(200)
    u[[3, *range(100, 110)]] = 0.0
    sent = nonzeros(support, u)
    assert sent.frames.counts.tolist() == [100, 90]
    assert sent.frames.index_bits.tolist() == [0, 630]
    assert np.array_equal(sent.lifted(), u)
    assert nonzeros(support, u.astype(np.float32)).frames.counts.tolist() == [100, 100]
