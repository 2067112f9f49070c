"""Random problems for the theory tests, each twice: as the library sees it, and in the paper's words (dense, literal).

`Dense` writes f_i, its gradient and its Hessian out on R^d with one dense matrix per client and shares no code with the
library; `ef21` is Algorithm 1 line by line; `rounds_of` is the library's clients with x^{t+1} = x^t - gamma g^t.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import errorfeedback as ef
from errorfeedback.clients.order import Order
from errorfeedback.core import Round

THEORY = settings(deadline=None, derandomize=True, max_examples=60, suppress_health_check=list(HealthCheck))
FEW = settings(parent=THEORY, max_examples=25)
ROUNDING = 1e-12
KINDS = ("squared", "penalty", "logistic")
STARTS = ("zero", "gradient")


@dataclass(frozen=True, eq=False)
class Dense:
    """f_i(x) = (1/m_i) sum_rows loss(<a, x>, b) + lam sum_{j in J_i} x_j^2/(1 + x_j^2), on R^d, one A_i per client."""

    A: list[np.ndarray]
    b: list[np.ndarray]
    logistic: bool = False
    lam: float = 0.0

    @property
    def n(self) -> int:
        return len(self.A)

    @property
    def d(self) -> int:
        return self.A[0].shape[1]

    @property
    def owned(self) -> np.ndarray:
        """(n, d): (i, j) is not in Z."""
        return np.array([(block != 0).any(axis=0) for block in self.A])

    @property
    def sizes(self) -> np.ndarray:
        return self.owned.sum(axis=1)

    @property
    def c(self) -> int:
        return int(self.owned.sum(axis=0).max())

    def problem(self):
        """The same clients, as users give them to the library."""
        A, b = np.vstack(self.A), np.concatenate(self.b)
        ids = np.repeat(np.arange(self.n), [len(block) for block in self.A])
        penalty = ef.NonconvexPenalty(self.lam) if self.lam else None
        return (ef.logistic if self.logistic else ef.least_squares)(A, b, ids, regularizer=penalty)

    def value(self, i: int, x: np.ndarray) -> float:
        z = self.A[i] @ x
        losses = np.logaddexp(0, -self.b[i] * z) if self.logistic else (z - self.b[i]) ** 2
        return losses.mean() + self.lam * (self.owned[i] * x**2 / (1 + x**2)).sum()

    def gradient(self, i: int, x: np.ndarray) -> np.ndarray:
        z, b = self.A[i] @ x, self.b[i]
        slopes = -b * (1 - np.tanh(b * z / 2)) / 2 if self.logistic else 2 * (z - b)
        return self.A[i].T @ slopes / len(b) + self.lam * self.owned[i] * 2 * x / (1 + x**2) ** 2

    def hessian(self, i: int, x: np.ndarray) -> np.ndarray:
        z, m = self.A[i] @ x, len(self.b[i])
        curvature = (1 - np.tanh(z / 2) ** 2) / 4 if self.logistic else np.full(m, 2.0)
        penalty = self.lam * self.owned[i] * (2 - 6 * x**2) / (1 + x**2) ** 3
        return self.A[i].T @ np.diag(curvature) @ self.A[i] / m + np.diag(penalty)

    def f(self, x: np.ndarray) -> float:
        return float(np.mean([self.value(i, x) for i in range(self.n)]))

    def grad(self, x: np.ndarray) -> np.ndarray:
        return np.mean([self.gradient(i, x) for i in range(self.n)], axis=0)

    def grads(self, x: np.ndarray) -> np.ndarray:
        """(n, d): all gradients."""
        return np.array([self.gradient(i, x) for i in range(self.n)])

    def hessians(self, x: np.ndarray | None = None) -> np.ndarray:
        """(n, d, d): all Hessians, at 0 (where every one of them is largest) unless told."""
        return np.array([self.hessian(i, np.zeros(self.d) if x is None else x) for i in range(self.n)])


def norm2(u: np.ndarray) -> float:
    return float((u * u).sum())


def largest(H: np.ndarray) -> float:
    """lambda_max of a dense symmetric matrix."""
    return float(np.linalg.eigvalsh(H)[-1])


def pattern(rng: np.random.Generator, n: int, d: int, c: int) -> np.ndarray:
    """(n, d): who owns what; every client and every feature is served, and max_j |I_j| is exactly c (n <= c d)."""
    owned = np.zeros((n, d), dtype=bool)
    owned[rng.permutation(n), np.arange(n) % d] = True
    for j in range(d):
        size = c if j == 0 else int(rng.integers(1, c + 1))
        others = rng.permutation(np.flatnonzero(~owned[:, j]))
        owned[others[: max(size - owned[:, j].sum(), 0)], j] = True
    return owned[:, rng.permutation(d)]


def dense(seed: int, n: int, d: int, c: int, kind: str = "squared", most_rows: int = 4) -> Dense:
    """Clients of unequal |J_i|, unequal m_i and scales that differ by up to 10."""
    rng = np.random.default_rng(seed)
    owned = pattern(rng, n, d, c)
    m = rng.integers(2, max(most_rows, 2) + 1, size=n)
    scale = 10 ** rng.uniform(-0.5, 0.5, size=n)
    A = [scale[i] * owned[i] * rng.standard_normal((m[i], d)) for i in range(n)]
    b = [rng.standard_normal(m[i]) for i in range(n)]
    if kind == "logistic":
        b = [np.where(np.arange(m[i]) % 2 == 0, 1.0, -1.0) for i in range(n)]
    return Dense(A, b, logistic=kind == "logistic", lam=float(rng.uniform(0.1, 3)) if kind == "penalty" else 0.0)


@st.composite
def denses(draw: st.DrawFn, kinds: tuple[str, ...] = KINDS, c: int | None = None) -> Dense:
    """Random problems with n from 1 to 6, d up to 9, c from 1 to n."""
    n = draw(st.integers(1, 6))
    c = draw(st.integers(1, n)) if c is None else min(c, n)
    d = draw(st.integers(-(-n // c), 9))
    return dense(draw(st.integers(0, 2**32)), n, d, c, draw(st.sampled_from(kinds)))


seeds = st.integers(0, 2**32)


def levels(seed: int, dense: Dense) -> tuple[int, ...]:
    """One K_i per client, from 1 to beyond |J_i|."""
    return tuple(int(k) for k in np.random.default_rng(seed).integers(1, dense.sizes + 2))


def alphas(dense: Dense, k: tuple[int, ...]) -> np.ndarray:
    """min{K_i, |J_i|} / |J_i|."""
    return np.minimum(k, dense.sizes) / dense.sizes


def theta_beta(alpha: float) -> tuple[float, float]:
    """theta = 1 - sqrt(1 - alpha), beta = (1 - alpha)/(1 - sqrt(1 - alpha))."""
    theta = 1 - np.sqrt(1 - alpha)
    return theta, (1 - alpha) / theta


def top_k(u: np.ndarray, k: int) -> np.ndarray:
    """The K entries of largest magnitude on R^d; ties go to the lower index."""
    out = np.zeros_like(u)
    keep = np.argsort(-np.abs(u), kind="stable")[:k]
    out[keep] = u[keep]
    return out


def lift(u: np.ndarray, owned: np.ndarray) -> np.ndarray:
    """The clients' own coordinates, one after the other."""
    return u[owned]


def unlift(u: np.ndarray, owned: np.ndarray) -> np.ndarray:
    """(n, d) with zeros where a client owns nothing."""
    out = np.zeros(owned.shape)
    out[owned] = u
    return out


@dataclass(frozen=True, eq=False)
class State:
    """(x^t, g_i^t, grad f_i(x^t)), the last two as (n, d)."""

    x: np.ndarray
    g: np.ndarray
    grads: np.ndarray

    @property
    def error2(self) -> float:
        """||g^t - grad f(x^t)||^2."""
        return norm2((self.g - self.grads).mean(axis=0))

    @property
    def G_i(self) -> np.ndarray:
        return ((self.g - self.grads) ** 2).sum(axis=1)

    @property
    def G(self) -> float:
        return float(self.G_i.mean())


def ef21(dense: Dense, k: tuple[int, ...], gamma: float, x: np.ndarray, start: str, rounds: int) -> Iterator[State]:
    """Algorithm 1, literally, on R^d."""
    grads = dense.grads(x)
    g = grads.copy() if start == "gradient" else np.zeros_like(grads)
    yield State(x, g, grads)
    for _ in range(rounds):
        x = x - gamma * g.mean(axis=0)
        grads = dense.grads(x)
        g = g + np.array([top_k(grads[i] - g[i], k[i]) for i in range(dense.n)])
        yield State(x, g, grads)


def rounds_of(dense: Dense, k: tuple[int, ...], gamma: float, x: np.ndarray, start: str, rounds: int) -> Iterator[State]:
    """The same rounds, with the clients of the library."""
    problem, owned = dense.problem(), dense.owned
    session = ef.Local().open(problem, ef.Setup(ef.EF21(ef.TopK(k), start=start), ef.Whole(), x, commands=False))
    for t in range(rounds + 1):
        session.round(Order(Round(t, 0), x, None))
        seen = session.observe(x)
        state = State(x, unlift(seen.error + seen.grads, owned), unlift(seen.grads, owned))
        yield state
        x = x - gamma * state.g.mean(axis=0)


def node_at(problem: ef.Problem, method: ef.Method, x: np.ndarray) -> ef.Node:
    """All clients of a problem, standing at x."""
    node = ef.Node(problem, method.compressor.on(problem.support), np.empty(problem.support.size))
    node.stand(x)
    return node
