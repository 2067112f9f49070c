"""One round of EF21 with Top1 as others would write it, each as well as its means allow.

A contestant is made from a problem, a step size and x^0; calling it makes one round (gradients at x, selection, step) and
`x` is where it stands. All of them must walk the same way before anybody is timed.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.special import expit

import errorfeedback as ef
from errorfeedback.problems.glm import GLM


class Ours:
    """The library's own loop, `rounds` at a time, metrics off."""

    def __init__(self, problem: GLM, gamma: float, engine: object = None) -> None:
        self.problem, self.gamma, self.engine = problem, gamma, engine

    def run(self, rounds: int) -> ef.Result:
        method, rule = ef.EF21(ef.TopK(1)), ef.Constant(self.gamma)
        return ef.solve(self.problem, method, rule, rounds=rounds, every=max(rounds, 1), metrics=False, engine=self.engine)

    def seconds_per_round(self, rounds: int) -> float:
        seconds = self.run(rounds).history["seconds"]
        return float(seconds[-1] - seconds[0]) / rounds


class VectorisedNumpy:
    """All clients at once: rows as one dense (n m, d) matrix for A x, as (n, d, m) blocks for the gradients."""

    def __init__(self, problem: GLM, gamma: float) -> None:
        self.n, self.gamma = problem.n, gamma
        self.m = problem.A.shape[0] // problem.n
        self.A = problem.A.toarray()
        self.transposed = np.ascontiguousarray(self.A.reshape(self.n, self.m, -1).transpose(0, 2, 1))
        self.b, self.x = problem.target, np.zeros(problem.d)
        self.g_i, self.g = np.zeros((self.n, problem.d)), np.zeros(problem.d)
        self.clients, self.diff = np.arange(self.n), np.empty((self.n, problem.d))

    def __call__(self) -> None:
        residual = (self.A @ self.x - self.b) * (2 / self.m)
        np.matmul(self.transposed, residual.reshape(self.n, self.m, 1), out=self.diff[:, :, None])
        self.diff -= self.g_i
        chosen = np.abs(self.diff).argmax(axis=1)
        values = self.diff[self.clients, chosen]
        self.g_i[self.clients, chosen] += values
        self.g += np.bincount(chosen, weights=values, minlength=len(self.g)) / self.n
        self.x = self.x - self.gamma * self.g


class ClientLoop:
    """A Python loop over clients, dense numpy inside."""

    def __init__(self, problem: GLM, gamma: float) -> None:
        A, self.gamma = problem.A.toarray(), gamma
        self.blocks = np.split(A, problem.rows[1:-1])
        self.b, self.x = np.split(problem.target, problem.rows[1:-1]), np.zeros(problem.d)
        self.g_i = [np.zeros(problem.d) for _ in self.blocks]

    def __call__(self) -> None:
        for A, b, g in zip(self.blocks, self.b, self.g_i, strict=True):
            diff = A.T @ (A @ self.x - b) * (2 / len(b)) - g
            j = np.argmax(np.abs(diff))
            g[j] += diff[j]
        self.x = self.x - self.gamma * (sum(self.g_i) / len(self.g_i))


class VectorisedScipy:
    """Two sparse products per round and a selection with reduceat (logistic loss)."""

    def __init__(self, problem: GLM, gamma: float) -> None:
        s = problem.support
        self.gamma, self.n, self.starts, self.indices = gamma, problem.n, s.indptr[:-1], s.indices
        self.A, self.lifted = problem.A, sparse.csr_array(problem.lifted.T)
        self.y, self.x = problem.target, np.zeros(problem.d)
        self.share = np.repeat(1 / np.diff(problem.rows), np.diff(problem.rows))
        self.sizes, self.g_i, self.g = s.sizes, np.zeros(s.size), np.zeros(problem.d)

    def __call__(self) -> None:
        slopes = -self.y * self.share * expit(-self.y * (self.A @ self.x))
        diff = self.lifted @ slopes - self.g_i
        magnitude = np.abs(diff)
        largest = np.repeat(np.maximum.reduceat(magnitude, self.starts), self.sizes)
        candidates = np.flatnonzero(magnitude == largest)
        clients = np.searchsorted(self.starts, candidates, side="right")
        chosen = candidates[np.unique(clients, return_index=True)[1]]
        self.g_i[chosen] += diff[chosen]
        self.g += np.bincount(self.indices[chosen], weights=diff[chosen], minlength=len(self.g)) / self.n
        self.x = self.x - self.gamma * self.g


def check_same_iterates(
    problem: GLM, gamma: float, rival: VectorisedNumpy | ClientLoop | VectorisedScipy, rounds: int = 50
) -> None:
    """Raise unless the rival stands where we stand after `rounds` rounds."""
    for _ in range(rounds):
        rival()
    ours = Ours(problem, gamma).run(rounds + 1).x  # the first round of Algorithm 1 stands still (g^0 = 0)
    gap = float(np.abs(ours - rival.x).max() / np.abs(ours).max())
    if not gap < 1e-10:
        raise AssertionError(f"{type(rival).__name__} is {gap:.1e} away from our iterate after {rounds} rounds")
