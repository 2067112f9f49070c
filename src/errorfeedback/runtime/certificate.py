"""Theorem 1 checked along a run: Psi^{t+1} <= Psi^t - (gamma/2)||grad f(x^t)||^2, and the bound on the mean."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from errorfeedback.methods.ef21 import EF21
from errorfeedback.runtime.solve import Result

SLACK = 1e-9
"""Rounding in Psi, relative to Psi^0."""


@dataclass(frozen=True)
class Certificate:
    """What the recorded rounds say. With every > 1 the checks are over the recorded rounds only, which Theorem 1 implies."""

    holds: bool
    complete: bool
    """Every round was recorded, so that the theorem was checked as it stands."""
    bound: float
    """The right-hand side of Theorem 1."""
    mean_grad_norm2: float
    """(1/T) times the sum of ||grad f||^2 over the recorded rounds t < T."""
    violated_at: int | None
    """The first recorded round whose step broke the descent of Psi."""

    def __str__(self) -> str:
        verdict = "held" if self.holds else f"violated (round {self.violated_at})"
        scope = "every round" if self.complete else "the recorded rounds"
        return f"Theorem 1 {verdict} over {scope}: mean ||grad f||^2 {self.mean_grad_norm2:.6g} <= bound {self.bound:.6g}"


def verify(result: Result) -> Certificate:
    """Check Theorem 1 on the history of an EF21 run with a constant step size and metrics."""
    h = result.history
    if not isinstance(result.method, EF21) or result.method.start == "authors":
        raise ValueError(f"Theorem 1 is about EF21 from g_i^0 in R^d_i, not about {result.method}")
    if result.rounds < 1 or np.isnan(h["lyapunov"]).all():
        raise ValueError("the run recorded no Lyapunov function; run at least one round with metrics=True")
    if np.ptp(h["gamma"]) > 0:
        raise ValueError(
            f"Theorem 1 is about a constant step size, and gamma went from {h['gamma'].min()} to {h['gamma'].max()}"
        )
    gamma = float(h["gamma"][0])
    psi, grad2 = h["lyapunov"], h["grad_norm2"][:-1]
    slack = SLACK * abs(psi[0])
    rises = np.flatnonzero(~(psi[1:] <= psi[:-1] - gamma / 2 * grad2 + slack))
    bound = result.theory.bound(result.rounds, h["f"][0], h["G"][0], gamma, result.f_star)
    mean = float(grad2.sum() / result.rounds)
    return Certificate(
        holds=not len(rises) and mean <= bound * (1 + SLACK),
        complete=result.every == 1,
        bound=bound,
        mean_grad_norm2=mean,
        violated_at=int(h["round"][rises[0]]) if len(rises) else None,
    )
