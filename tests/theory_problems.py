"""Small random problems and EF21 states on which a theorem's inequality can be checked exactly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import errorfeedback as ef
from errorfeedback.compressors.base import Contractive
from errorfeedback.compressors.exact_on_common import most_common
from errorfeedback.compressors.participating import Participating
from errorfeedback.core import Floats, Round
from errorfeedback.problems.base import Problem
from errorfeedback.sparsity.support import Support
from errorfeedback.theory.proof import Proof

KINDS = ("least squares", "least squares + penalty", "logistic", "logistic + penalty", "softmax", "softmax + penalty")
CLASSES = 3


def random_problem(kind: str, seed: int, sharing: str = "some") -> Problem:
    """A few clients with unequal J_i; sharing: "none" (c = 1), "some", "all" (c = n)."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    owned = _owned(rng, n, int(rng.integers(n, 3 * n)), sharing)
    rows, ids = [], []
    for i, features in enumerate(owned):
        m = int(rng.integers(1, 6))
        block = np.zeros((m, owned.shape[1]))
        block[:, features] = rng.normal(size=(m, features.sum())) * rng.uniform(0.3, 3.0)
        rows.append(block)
        ids += [i] * m
    A = np.vstack(rows)
    penalty = ef.NonconvexPenalty(float(rng.uniform(0.1, 2.0))) if "penalty" in kind else None
    if "softmax" in kind:
        return ef.softmax(A, np.arange(len(A)) % CLASSES, ids, regularizer=penalty, classes=range(CLASSES))
    if "logistic" in kind:
        y = np.where(np.arange(len(A)) % 2, 1, -1)
        return ef.logistic(A, y, ids, regularizer=penalty)
    return ef.least_squares(A, rng.normal(size=len(A)), ids, regularizer=penalty)


def _owned(rng: np.random.Generator, n: int, d: int, sharing: str) -> Floats:
    """(n, d): which client has which feature; everybody has one, and everything has an owner."""
    if sharing == "all":
        return np.ones((n, d), dtype=bool)
    owned = np.zeros((n, d), dtype=bool)
    owned[np.concatenate([np.arange(n), rng.integers(0, n, d - n)]), np.arange(d)] = True
    return owned if sharing == "none" else owned | (rng.random((n, d)) < rng.uniform(0.1, 0.7))


def random_compressors(problem: Problem, seed: int) -> list[Contractive]:
    """TopK with unequal K_i, exact on common, and clients that answer with unequal p_i."""
    rng = np.random.default_rng(seed)
    k = rng.integers(1, 4, problem.n).tolist()
    p = rng.uniform(0.2, 1.0, problem.n)
    common = most_common(problem.support, int(rng.integers(1, max(2, problem.d // 2))))
    return [
        ef.TopK(1),
        ef.TopK(k),
        ef.ExactOnCommon(common, k),
        ef.Participating(ef.TopK(k), p),
        ef.Participating(ef.ExactOnCommon(common), p),
    ]


@dataclass(frozen=True, eq=False)
class State:
    """x, and the clients' errors u_i = g_i - grad f_i(x)."""

    x: Floats
    error: Floats


def states(problem: Problem, carries: Floats, count: int, seed: int) -> Iterator[State]:
    """Points near the solution and far from it, with errors at the positions that can carry one: random, all of one
    size, and
    parallel to the gradients."""
    rng = np.random.default_rng(seed)
    centre = problem.columns * 0.0
    for _ in range(count):
        x = centre + rng.normal(size=problem.d) * 10.0 ** rng.uniform(-3, 1)
        grads = problem.gradients_at(x)
        size = np.sqrt(np.mean(grads**2)) * 10.0 ** rng.uniform(-2, 2)
        random = rng.normal(size=len(grads))
        for u in (random * size, np.sign(random) * size, np.sign(grads) * size, grads * rng.normal(), 0.0 * grads):
            yield State(x, u * carries)


def carriers(problem: Problem, compressor: Contractive) -> Floats:
    """The positions that carry an error from round 1 on: rare features of clients with alpha_i < 1."""
    support = problem.support
    rare = ~compressor.exact(support)
    return rare[support.indices] * np.repeat(compressor.alpha(support) < 1, support.sizes)


def rise(problem: Problem, compressor: Contractive, proof: Proof, state: State) -> float:
    """E Psi+ - (Psi - (gamma/2)||grad f||^2) for one step of EF21 from a state, relative to its terms; a theorem says
    <= 0."""
    support, gamma = problem.support, proof.gamma
    grads = problem.gradients_at(state.x)
    gradient = support.scatter(grads) / problem.n
    g = grads + state.error
    x = state.x - gamma * support.scatter(g) / problem.n
    v = problem.gradients_at(x) - g
    G = _expected_error(compressor, v, support)
    before = proof.lyapunov(problem.value(state.x), support.norms2(state.error), 0.0)
    after = proof.lyapunov(problem.value(x), G, 0.0)
    scale = abs(before) + abs(after) + gamma * float(gradient @ gradient)
    return (after - before + gamma / 2 * float(gradient @ gradient)) / scale


def _expected_error(compressor: Contractive, v: Floats, support: Support) -> Floats:
    """E||C(v_i) - v_i||^2 of every client, exactly."""
    if isinstance(compressor, Participating):
        p = compressor.probabilities(support)
        return p * _expected_error(compressor.compressor, v, support) + (1 - p) * support.norms2(v)
    left = compressor.on(support)(v, Round(0, 0)).lifted() - v
    return support.norms2(left)
