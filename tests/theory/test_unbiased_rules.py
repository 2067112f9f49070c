"""The steps of DIANA, DASHA, DASHA-PP and VR-MARINA: the expected Psi of each proof falls from every state at once.

For quadratics f_i = x'H_i x/2 and RandK a round is a linear map of the state for each of the finitely many draws. With S_o
the map of draw o, of probability p_o, and Psi a quadratic form Q,

    E Psi+ - Psi + (gamma/2)||grad f||^2 = state' (sum_o p_o S_o' Q S_o - Q + (gamma/2) F) state

is never positive where the largest eigenvalue is not. Nothing of the proofs is used but Psi itself.
"""

from __future__ import annotations

from itertools import product
from math import sqrt

import numpy as np
import pytest

import errorfeedback as ef
from errorfeedback.smoothness.sampled_smoothness import sampled_smoothness

D, N = 2, 2


def hessians(seed):
    """H_i of rank one or two, some clients far steeper than others."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((N, 2, D)) * (10.0 ** rng.uniform(-1, 1, (N, 1, 1)))
    if seed % 2:
        rows[:, 1] = 0.0
    return 2 * np.einsum("imk,iml->ikl", rows, rows) / 2, rows


def problem_of(rows):
    return ef.least_squares(rows.reshape(-1, D), np.zeros(2 * N), clients=np.repeat(np.arange(N), 2))


def choices(p=1.0):
    """(probability, the client's C as a matrix): RandK(1) of two, for a client that answers with probability p."""
    keep = [np.diag([2.0, 0.0]), np.diag([0.0, 2.0])]
    return [(p / 2, each / p, 1.0) for each in keep] + ([(1 - p, np.zeros((D, D)), 0.0)] if p < 1 else [])


def matrix(function, size):
    """Of a linear function of the state."""
    return np.array([function(unit) for unit in np.eye(size)]).T


def worst(H, size, outcomes, psi, gamma):
    """The largest eigenvalue of the form, in units of Psi's own."""
    Q = form(psi, size)
    F = matrix(lambda s: H.mean(axis=0) @ s[:D], size)
    total = gamma / 2 * F.T @ F - Q
    for chance, step in outcomes:
        S = matrix(step, size)
        total += chance * S.T @ Q @ S
    return np.linalg.eigvalsh(total).max() / np.linalg.norm(Q)


def over_draws(step, p=1.0):
    """(probability, map) of every draw of all clients."""
    draws = product(choices(p), repeat=N)
    return [
        (np.prod([q for q, *_ in draw]), lambda s, draw=draw: step(s, [c for _, c, _ in draw], [a for *_, a in draw]))
        for draw in draws
    ]


def form(psi, size):
    """The matrix of a quadratic function."""
    unit, value = np.eye(size), [psi(e) for e in np.eye(size)]
    return np.array([[(psi(unit[k] + unit[m]) - value[k] - value[m]) / 2 for m in range(size)] for k in range(size)])


def diana(H, problem, factor):
    theory, method = ef.analyse(problem, ef.RandK(1)), ef.DIANA(ef.RandK(1)).bind(problem.support)
    gamma = factor * ef.DianaStep().gamma(theory, method)
    rate, n, L = method.rate, theory.n, theory.L
    theta = 1 - sqrt(1 - rate)
    K = (L / 2 + sqrt(L**2 / 4 + theory.omega / n * (theory.L_plus / theta) ** 2)) / 2
    weight = theory.omega / n / (4 * K * theta)

    def step(s, C, answers):
        x, h = s[:D], s[D:].reshape(N, D)
        m = [C[i] @ (H[i] @ x - h[i]) for i in range(N)]
        x_new = x - gamma * (h.mean(axis=0) + np.mean(m, axis=0))
        return np.concatenate([x_new, *(h[i] + rate * m[i] for i in range(N))])

    def psi(s):
        x, h = s[:D], s[D:].reshape(N, D)
        return x @ H.mean(axis=0) @ x / 2 + weight * np.mean([np.sum((h[i] - H[i] @ x) ** 2) for i in range(N)])

    return D + N * D, over_draws(step), psi, gamma


def dasha(H, problem, factor):
    theory, method = ef.analyse(problem, ef.RandK(1)), ef.DASHA(ef.RandK(1)).bind(problem.support)
    gamma, a = factor * ef.DashaStep().gamma(theory, method), method.a
    P = 1 / (a * (2 - a))
    Q = 2 * a * P * theory.omega / theory.n

    def step(s, C, answers):
        x, g = s[:D], s[D:].reshape(N, D)
        new = x - gamma * g.mean(axis=0)
        return np.concatenate([new, *(g[i] + C[i] @ (H[i] @ (new - x) - a * (g[i] - H[i] @ x)) for i in range(N))])

    def psi(s):
        x, e = s[:D], s[D:].reshape(N, D) - H @ s[:D]
        return x @ H.mean(axis=0) @ x / 2 + gamma / 2 * (P * np.sum(e.mean(axis=0) ** 2) + Q * np.sum(e**2) / N)

    return D + N * D, over_draws(step), psi, gamma


def dasha_pp(H, problem, factor):
    p, rule = 0.6, ef.DashaPPStep()
    method = ef.DASHAPP(ef.SomeClients(ef.RandK(1), p)).bind(problem.support)
    theory = ef.analyse(problem, method.compressor)
    gamma, a, b = factor * rule.gamma(theory, method), method.a, method.b
    P_e, Q_e, P_d, Q_d = rule.weights(theory, method)

    def step(s, C, answers):
        x, g, h = s[:D], s[D : D + N * D].reshape(N, D), s[D + N * D :].reshape(N, D)
        new = x - gamma * g.mean(axis=0)
        k = [H[i] @ (new - x) - b * (h[i] - H[i] @ x) for i in range(N)]
        after = [g[i] + C[i] @ (k[i] - a * (g[i] - h[i])) for i in range(N)]
        return np.concatenate([new, *after, *(h[i] + answers[i] * k[i] / p for i in range(N))])

    def psi(s):
        x, g, h = s[:D], s[D : D + N * D].reshape(N, D), s[D + N * D :].reshape(N, D)
        e, d = g - h, h - H @ x
        mean = P_e * np.sum(e.mean(axis=0) ** 2) + P_d * np.sum(d.mean(axis=0) ** 2)
        return x @ H.mean(axis=0) @ x / 2 + gamma / 2 * (mean + Q_e * np.sum(e**2) / N + Q_d * np.sum(d**2) / N)

    return D + 2 * N * D, over_draws(step, p), psi, gamma


def vr_marina(H, problem, factor):
    """Batches of one of two rows."""
    p, A = 0.3, problem.A.toarray().reshape(N, 2, D)
    method = ef.VRMARINA(ef.RandK(1), p=p, batch=1)
    theory = ef.analyse(problem, method.compressor)
    gamma = factor * ef.VRMarinaStep().gamma(theory, method)

    def whole(s):
        new = s[:D] - gamma * s[D:]
        return np.concatenate([new, H.mean(axis=0) @ new])

    def differences(s, C, rows):
        h = -gamma * s[D:]
        sampled = [2 * A[i, rows[i]] * (A[i, rows[i]] @ h) for i in range(N)]
        return np.concatenate([s[:D] + h, s[D:] + np.mean([C[i] @ sampled[i] for i in range(N)], axis=0)])

    outcomes = [(p, whole)]
    for rows in product((0, 1), repeat=N):
        some = over_draws(lambda s, C, answers, rows=rows: differences(s, C, rows))
        outcomes += [((1 - p) * chance / 2**N, step) for chance, step in some]

    def psi(s):
        return s[:D] @ H.mean(axis=0) @ s[:D] / 2 + gamma / (2 * p) * np.sum((s[D:] - H.mean(axis=0) @ s[:D]) ** 2)

    return 2 * D, outcomes, psi, gamma


RULES = {"DIANA": diana, "DASHA": dasha, "DASHA-PP": dasha_pp, "VR-MARINA": vr_marina}
LONGER = {"DIANA": 1.05, "DASHA": 1.05, "DASHA-PP": 1.05, "VR-MARINA": 1.3}
"""Of VR-MARINA the rows' variance is bounded by their mean square, which costs a fifth."""


def worst_over(name, factor, seeds=8):
    instances = [hessians(seed) for seed in range(seeds)]
    return max(worst(H, *RULES[name](H, problem_of(rows), factor)) for H, rows in instances)


@pytest.mark.parametrize("name", RULES)
def test_expected_psi_falls_from_every_state_and_does_not_with_a_slightly_longer_step(name):
    assert worst_over(name, 1.0) <= 1e-12
    assert worst_over(name, LONGER[name]) > 1e-9


def diana_convex(H, problem, factor):
    """Their Psi, about the distance to the minimum, which is 0 here, as are the gradients there."""
    theory, method = ef.analyse(problem, ef.RandK(1)), ef.DIANA(ef.RandK(1)).bind(problem.support)
    size, outcomes, _, ours = diana(H, problem, 1.0)
    gamma = factor * ef.DianaConvex().gamma(theory, method)
    M, scale = 4 * theory.omega / theory.n / method.rate, gamma / ours

    def step(s, move):
        after = move(s)
        return np.concatenate([s[:D] + scale * (after[:D] - s[:D]), after[D:]])

    moves = [(chance, lambda s, move=move: step(s, move)) for chance, move in outcomes]
    return size, moves, lambda s: np.sum(s[:D] ** 2) + M * gamma**2 * np.sum(s[D:] ** 2) / N, 0.0


def test_dianas_distance_to_the_minimum_of_convex_functions_does_not_grow():
    """The constant is theirs, and not the last word: twice the step would do on these, and 2.5 times does not."""
    assert worst_of_convex(1.0) <= 1e-12
    assert worst_of_convex(2.5) > 1e-4


def worst_of_convex(factor):
    return max(worst(H, *diana_convex(H, problem_of(rows), factor)) for H, rows in map(hessians, range(8)))


def test_they_are_their_formulas():
    problem = ef.synthetic(n=10, d=30, m=3, c=4)
    theory = ef.analyse(problem, ef.RandK(2))
    omega, A, L, L_plus = theory.omega, theory.omega / 10, theory.L, theory.L_plus

    def root(M2):
        return pytest.approx(2 / (L + sqrt(L**2 + 4 * M2)), rel=1e-12)

    diana, dasha = (kind(ef.RandK(2)).bind(problem.support) for kind in (ef.DIANA, ef.DASHA))
    assert diana.rate == pytest.approx(1 / (1 + omega), rel=1e-14)
    assert ef.DianaStep().gamma(theory, diana) == root(A * (L_plus / (1 - sqrt(1 - 1 / (1 + omega)))) ** 2)
    assert dasha.a == pytest.approx(1 / (2 * omega + 1), rel=1e-14)
    assert ef.DashaStep().gamma(theory, dasha) == root(2 * (2 * omega + 1) * A * L_plus**2)
    some = ef.DASHAPP(ef.SomeClients(ef.RandK(2), 0.4)).bind(problem.support)
    assert (some.a, some.b) == pytest.approx((0.4 / (2 * omega + 1), 0.25), rel=1e-14)
    batch2 = sampled_smoothness(problem, 1) ** 2
    assert ef.VRMarinaStep().gamma(theory, ef.VRMARINA(ef.RandK(2), p=0.2)) == root(4 * (A * L_plus**2 + (A + 0.1) * batch2))


def test_they_are_not_below_the_published_steps():
    problem = ef.synthetic(n=10, d=30, m=3, c=4)
    theory = ef.analyse(problem, ef.RandK(2))
    omega, n, L, L_tilde = theory.omega, theory.n, theory.L, theory.L_tilde
    assert ef.DashaStep().gamma(theory) > 1 / (L + sqrt(16 * omega * (2 * omega + 1) / n) * L_tilde)
    for p in (0.2, 0.9):
        method = ef.DASHAPP(ef.SomeClients(ef.RandK(2), p)).bind(problem.support)
        theirs = sqrt(48 * omega * (2 * omega + 1) / (n * p**2) + 16 * (1 - p) / (n * p**2)) * L_tilde
        assert ef.DashaPPStep().gamma(ef.analyse(problem, method.compressor), method) > 1 / (L + theirs)
    assert ef.DianaConvex().gamma(theory) == pytest.approx(1 / ((1 + 6 * omega / n) * theory.L_max), rel=1e-12)
    with pytest.raises(ValueError, match="theorem needs at most"):
        ef.solve(problem, ef.DIANA(ef.RandK(2), rate=0.9), ef.DianaStep(), rounds=1)
    with pytest.raises(ValueError, match="theorem needs a below"):
        ef.solve(problem, ef.DASHA(ef.RandK(2), a=0.9), ef.DashaStep(), rounds=1)


def test_marina_with_some_clients_promises_no_less_than_its_published_form():
    """1/(L + L_tilde sqrt((1-p)/p (1 + omega)/r)) for r clients drawn with replacement; here r = q n answer on average."""
    problem, p, q = ef.synthetic(n=10, d=30, m=3, c=4), 0.3, 0.4
    theory = ef.analyse(problem, ef.SomeClients(ef.RandK(2), q))
    omega = ef.analyse(problem, ef.RandK(2)).omega
    theirs = 1 / (theory.L + theory.L_tilde * sqrt((1 - p) / p * (1 + omega) / (q * 10)))
    ours = ef.MarinaIndependent().gamma(theory, ef.MARINA(theory.compressor, p=p))
    assert theirs < ours < 1.2 * theirs
