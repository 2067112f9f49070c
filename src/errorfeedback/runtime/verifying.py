"""Theorem 1, checked on a run whatever rule gave its step size."""

from __future__ import annotations

import numpy as np

from errorfeedback.methods.ef21 import EF21
from errorfeedback.problems.base import is_bounded
from errorfeedback.runtime.solve import Result
from errorfeedback.theory.certificate import GUESSED, UNBOUNDED, Certificate, checked


def verify(result: Result) -> Certificate:
    """Check Theorem 1, as published, on the history of the `result` of an EF21 run with a constant step size, whatever rule
    gave it."""
    h = result.history
    if not isinstance(result.method, EF21) or result.method.unproved:
        raise ValueError(f"Theorem 1 is about EF21 from g_i^0 in R^d_i, not about {result.method}")
    if result.rounds < 1 or np.isnan(h["lyapunov"]).all():
        raise ValueError("the run recorded no Lyapunov function; run at least one round with metrics=True")
    if np.ptp(h["gamma"]) > 0:
        raise ValueError(
            f"Theorem 1 is about a constant step size, and gamma went from {h['gamma'].min()} to {h['gamma'].max()}"
        )
    if not is_bounded(result.theory.problem):
        return Certificate("Theorem 1", UNBOUNDED)
    if result.theory.smoothness.estimated:
        return Certificate("Theorem 1", GUESSED)
    gamma = float(h["gamma"][0])
    psi = np.array([result.theory.lyapunov(f, G, gamma, result.f_star) for f, G in zip(h["f"], h["G"], strict=True)])
    return checked("Theorem 1", gamma, psi, h["grad_norm2"], h["round"], result.theory.problem.dtype)
