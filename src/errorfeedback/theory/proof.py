"""What a rule with a theorem promises about a run, in a form that a certificate can check."""

from __future__ import annotations

from dataclasses import dataclass

from errorfeedback.core import PerClient


@dataclass(frozen=True, eq=False)
class Proof:
    """Psi^{t+1} <= Psi^t - (gamma/2)||grad f(x^t)||^2 for t >= first, Psi^t = f - f* + (gamma/2) sum_i w_i G_i^t."""

    rule: str
    gamma: float
    weights: PerClient
    """w_i = q_i/theta_i; zero for clients that have no error from round `first` on."""
    first: int

    def lyapunov(self, f: float, G_i: PerClient, f_star: float) -> float:
        """Psi^t; errors that are not finite count, also where their weight is zero."""
        return f - f_star + self.gamma / 2 * float(self.weights @ G_i)
