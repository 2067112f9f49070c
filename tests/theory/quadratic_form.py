"""The descent of a rule's Psi, decided over all states at once: for quadratics it is a quadratic form in the state.

Let x+ = x + h with h = -gamma (p + (1/n) sum_i u_i), p = grad f(x), u_i = g_i - grad f_i(x); then grad f_i moves by H_i h.
Of a compressor the theorems know ||C(v) - v||^2 <= (1 - alpha_i)||P v||^2 alone (P: what is not sent exactly), and
C(v) = (1 - sqrt(1 - alpha_i)) v attains it at every v (`Shrink`). With it a step of EF21 has

    Psi+ - Psi + (gamma/2)||p||^2 = <p, h> + h'Hh/2 + (gamma/2)||p||^2
                                    + (gamma/2) sum_i w_i ((1 - alpha_i)||P(H_i h - u_i)||^2 - ||u_i||^2),

a quadratic form in the state (p, u_1, ..., u_n). A rule's theorem says that it is never positive, that is: no eigenvalue is.
Nothing is drawn at random, and no step of the proof is used; a rule is tight where a slightly larger gamma gives one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from theory_problems import State

import errorfeedback as ef
from errorfeedback.compressors.base import Contractive, Message, Operator
from errorfeedback.core import Floats, PerClient, Round
from errorfeedback.problems.base import Problem
from errorfeedback.smoothness.constants import Bounds, Smoothness
from errorfeedback.sparsity.support import Support
from errorfeedback.stepsizes.proved import Proved
from errorfeedback.theory.analysis import Theory
from errorfeedback.theory.proof import Proof

ROUNDING = 1e-12
"""An eigenvalue, in units of Psi's own terms, that is rounding."""


@dataclass(frozen=True)
class Shrink(Contractive):
    """C(u) = theta_i u with theta_i = 1 - sqrt(1 - alpha_i), and u itself on the common features."""

    contraction: tuple[float, ...]
    common: tuple[int, ...] = ()

    def alpha(self, support: Support) -> PerClient:
        return np.array(self.contraction)

    def exact(self, support: Support) -> np.ndarray:
        return np.isin(np.arange(support.d), self.common)

    def on(self, support: Support) -> Operator:
        return _Shrunk(support, self.frames(support), self)

    def entries(self, support: Support) -> PerClient:
        return support.sizes.astype(np.float64)

    @classmethod
    def examples(cls) -> Sequence[Shrink]:
        return [cls((0.5, 0.75, 1.0))]


class _Shrunk(Operator):
    def __init__(self, support: Support, frames, compressor: Shrink) -> None:
        super().__init__(support, frames)
        theta = np.repeat(1 - np.sqrt(1 - compressor.alpha(support)), support.sizes)
        self.share = np.where(compressor.exact(support)[support.indices], 1.0, theta)

    def __call__(self, u: Floats, ctx: Round) -> Message:
        return Message(self.support, None, self.share * u, self.frames)


@dataclass(frozen=True, eq=False)
class Quadratics:
    """n clients with the Hessians H_i on R^d, and what compresses them."""

    H: np.ndarray
    """(n, d, d)."""
    problem: Problem
    compressor: Contractive
    theory: Theory

    @property
    def owned(self) -> np.ndarray:
        support = self.problem.support
        owned = np.zeros((support.n, support.d), dtype=bool)
        owned[np.repeat(np.arange(support.n), support.sizes), support.indices] = True
        return owned

    def proof(self, rule: Proved, factor: float = 1.0) -> Proof:
        """What the rule promises, with `factor` times its gamma."""
        proof = rule.proof(self.theory, ef.EF21(self.compressor))
        return replace(proof, gamma=factor * proof.gamma)

    def worst(self, proof: Proof) -> tuple[float, np.ndarray, np.ndarray]:
        """The form's largest eigenvalue in units of Psi's terms, and its state (p, u); u is (n, d)."""
        n, d, _ = self.H.shape
        alpha, rare = self.compressor.alpha(self.problem.support), ~self.compressor.exact(self.problem.support)
        carries = self.owned & rare & (alpha < 1)[:, None] if proof.first else self.owned
        p, u = _coordinates(d, carries)
        h = -proof.gamma * (p + u.mean(axis=0))
        form = p.T @ h + h.T @ p + h.T @ self.H.mean(axis=0) @ h + proof.gamma * p.T @ p
        scale = p.T @ p
        for i in range(n):
            v = (self.H[i] @ h - u[i]) * rare[:, None]
            form += proof.gamma * proof.weights[i] * ((1 - alpha[i]) * v.T @ v - u[i].T @ u[i])
            scale += proof.weights[i] * u[i].T @ u[i]
        unit = 1 / np.sqrt(proof.gamma * np.diag(scale))
        values, vectors = np.linalg.eigh(unit[:, None] * (form + form.T) / 2 * unit)
        state = unit * vectors[:, -1]
        return float(values[-1]), p @ state, u @ state

    def holds(self, proof: Proof) -> bool:
        """Psi+ <= Psi - (gamma/2)||grad f||^2 from every state."""
        return self.worst(proof)[0] <= ROUNDING

    def slack(self, rule: Proved) -> float:
        """By what factor gamma could be larger (to 1e-6; 0 where it is too large already)."""
        low, high = 0.0, 2.0
        while self.holds(self.proof(rule, high)):
            low, high = high, 2 * high
        while high - low > 1e-6:
            middle = (low + high) / 2
            low, high = (middle, high) if self.holds(self.proof(rule, middle)) else (low, middle)
        return low


def _coordinates(d: int, carries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """p and all u_i as linear functions of the state: (d, N) and (n, d, N)."""
    size = d + int(carries.sum())
    u = np.zeros((*carries.shape, size))
    u[(*np.nonzero(carries), np.arange(d, size))] = 1.0
    return np.eye(d, size), u


def least_squares(H: np.ndarray, alpha: Sequence[float], common: Sequence[int] = (), lam: float = 0.0) -> Quadratics:
    """Clients with these positive semidefinite Hessians, as least squares (+ the penalty: 2 lam more on J_i, at x = 0)."""
    rows, d = [], H.shape[1]
    for hessian in H:
        values, vectors = np.linalg.eigh(hessian)
        rows.append(np.sqrt(d / 2 * np.maximum(values, 0))[:, None] * vectors.T * (np.diag(hessian) > 0))
    penalty = ef.NonconvexPenalty(lam) if lam else None
    problem = ef.least_squares(np.vstack(rows), np.zeros(d * len(H)), np.repeat(np.arange(len(H)), d), regularizer=penalty)
    own = np.array([2 * lam * np.diag((np.diag(hessian) > 0).astype(float)) for hessian in H])
    return of(H + own, problem, Shrink(tuple(alpha), tuple(common)))


def of(H: np.ndarray, problem: Problem, compressor: Contractive) -> Quadratics:
    return Quadratics(H, problem, compressor, ef.analyse(problem, compressor))


def hessians(problem: Problem) -> np.ndarray:
    """(n, d, d): the bounds on the Hessians, which quadratics attain."""
    k = problem.curvature()
    blocks = [slice(int(a), int(b)) for a, b in zip(k.rows[:-1], k.rows[1:], strict=True)]
    return np.array([k.A[rows].toarray().T @ (k.weights[rows, None] * k.A[rows].toarray()) for rows in blocks])


@dataclass(frozen=True, eq=False)
class Norms(Bounds):
    """Nothing but the L_i is known."""

    given: PerClient

    @cached_property
    def L_i(self) -> PerClient:
        return self.given


@dataclass(frozen=True, eq=False)
class OfNorms(Theory):
    given: PerClient

    @property
    def smoothness(self) -> Smoothness:
        return Norms(self.problem, self.given)


def indefinite(H: np.ndarray, alpha: Sequence[float], common: Sequence[int] = ()) -> Quadratics:
    """Clients with any symmetric Hessians, of which the theorems get the norms L_i and the supports only."""
    owned = np.abs(H).sum(axis=1) > 0
    problem = ef.least_squares(owned.astype(float), np.zeros(len(H)), np.arange(len(H)))
    compressor = Shrink(tuple(alpha), tuple(common))
    norms = np.abs(np.linalg.eigvalsh(H)).max(axis=1)
    return Quadratics(H, problem, compressor, OfNorms(problem, compressor, norms))


def at(quadratics: Quadratics, p: np.ndarray, u: np.ndarray) -> State:
    """The state of a least-squares problem with b = 0 that has this gradient and these errors."""
    return State(np.linalg.solve(quadratics.H.mean(axis=0), p), u[quadratics.owned])
