"""What a plot needs and an algorithm does not: f, ||grad f||^2, G, c^t, Psi. Computed with the clock stopped, on no wire."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from errorfeedback.clients.shard import Observation
from errorfeedback.core import Floats, Model, PerClient
from errorfeedback.engines.base import Session
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.sparsity.support import Support
from errorfeedback.theory.analysis import Theory
from errorfeedback.theory.proof import Proof


@dataclass(frozen=True, eq=False)
class Observer:
    """Looks at the clients of a simulation."""

    theory: Theory
    proof: Proof | None
    """The theorem whose Psi is recorded; Theorem 1's where there is none."""
    f_star: float
    prox: ElasticNet | None

    @property
    def support(self) -> Support:
        return self.theory.support

    def objective(self, losses: PerClient, x: Model) -> float:
        """f(x) + R(x)."""
        return float(np.mean(losses)) + self.penalty(x)

    def penalty(self, x: Model) -> float:
        """R(x)."""
        return 0.0 if self.prox is None else self.prox.value(x)

    def residual(self, x: Model, grad: Model) -> Model:
        """The shortest v in the subdifferential of f + R: zero at a solution, and only there."""
        return grad if self.prox is None else self.prox.shortest_subgradient(x, grad)

    def error2(self, seen: Observation, g: Model) -> float:
        """||g - grad f(x)||^2."""
        return norm2(g - self.support.scatter(seen.grads) / self.support.n)

    def metrics(self, gamma: float, session: Session, x: Model, g: Model) -> dict[str, float]:
        """The columns of the history that only a simulation has."""
        seen, n = session.observe(x), self.support.n
        f = self.objective(seen.values, x)
        grad = Model(self.support.scatter(seen.grads) / n)
        columns = {"f": f, "grad_norm2": norm2(grad), "residual2": norm2(self.residual(x, grad))}
        G_i = PerClient(np.zeros(n)) if seen.error is None else self.support.norms2(seen.error)
        G = float(np.mean(G_i))
        if seen.error is not None:
            columns |= {"G": G, "c_t": n * self.error2(seen, g) / G if G > 0 else 0.0}
        if self.proof is not None:
            columns["lyapunov"] = self.proof.lyapunov(f, G_i, self.f_star)
        elif seen.error is not None:
            columns["lyapunov"] = self.theory.lyapunov(f, G, gamma, self.f_star)
        return columns


def norm2(v: Floats) -> float:
    """||v||^2, in float64 whatever v is in."""
    return float(np.square(v, dtype=np.float64).sum())
