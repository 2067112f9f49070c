"""Rules with a theorem: one argument for all of them.

Let u_i = g_i - grad f_i(x), and let q_i >= 0 be such that ||(1/n) sum_i u_i||^2 <= sum_i q_i ||u_i||^2 for all u_i that can
occur. With theta_i, beta_i of Lemma 10 for every client and xi_i^2 = beta_i/theta_i, put
    Psi = f(x) - f* + (gamma/2) sum_i (q_i/theta_i) ||u_i||^2.
The descent lemma (Lemma 9) plus Lemma 10 per client give
    Psi+ <= Psi - (gamma/2)||grad f(x)||^2 - (1/(2 gamma) - L/2 - (gamma/2) M^2) ||x+ - x||^2
for every M with sum_i q_i xi_i^2 ||P(grad f_i(x+) - grad f_i(x))||^2 <= M^2 ||x+ - x||^2, P: the features that carry
an error.
The bracket is non-negative when 1 - gamma L - gamma^2 M^2 >= 0, that is up to the *exact root*
    gamma = 2/(L + sqrt(L^2 + 4 M^2)) >= 1/(L + M).
A rule chooses q_i = (B/n^2)/s_i with B = max_j sum_{i in I_j} s_i (Cauchy-Schwarz on each coordinate) and bounds M.

Clients that send everything (alpha_i = 1) and features that are sent exactly have no error once they were sent: after
round 0 from the zero start, where x does not move; from the start with the gradient start. The sharper rules leave them
out of every maximum, so their Psi falls from round `first` on. Full proofs: docs/theory.md.
"""

from __future__ import annotations

from abc import abstractmethod
from math import sqrt

import numpy as np

from errorfeedback.core import PerClient
from errorfeedback.methods.base import Method
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.theory.analysis import Theory
from errorfeedback.theory.proof import Proof

LEAST = 1e-12
"""The least s_i, relative to the largest."""


def positive(s: PerClient, theory: Theory) -> PerClient:
    """s_i > 0 for every client that has an error, also for one whose curvature is 0 or next to nothing: every s_i that is
    at least the rule's own choice will do in its proof."""
    return PerClient(np.where(theory.alpha_i < 1, np.maximum(s, LEAST * s.max() or 1.0), s))


def largest_root(L: float, M: float) -> float:
    """The largest gamma with 1 - gamma L - gamma^2 M^2 >= 0.

    >>> largest_root(1.0, 0.0), largest_root(0.0, 2.0)
    (1.0, 0.5)
    """
    return 2.0 / (L + sqrt(L**2 + 4.0 * M**2))


class Proved(Fixed):
    """A constant step size with a Lyapunov function of its own."""

    def missing(self, theory: Theory) -> str:
        """Why the theorem does not apply to this problem and compressor; empty where it does."""
        return ""

    @abstractmethod
    def weights(self, theory: Theory) -> PerClient:
        """w_i = q_i/theta_i."""

    def first(self, method: Method) -> int:
        """The round from which on Psi falls."""
        return 0

    def proof(self, theory: Theory, method: Method) -> Proof:
        return Proof(type(self).__name__, self.gamma(theory, method), self.weights(theory), self.first(method))

    def start(self, theory: Theory, method: Method) -> float:
        reason = self.missing(theory)
        if reason:
            raise ValueError(f"{type(self).__name__} does not apply: {reason}; ef.Best() takes the largest step that does")
        return super().start(theory, method)


class LyapunovRule(Proved):
    """A rule of the family above: `shares` are the s_i, `M` the bound; memory is kept in `theory`."""

    @abstractmethod
    def shares(self, theory: Theory) -> PerClient: ...

    @abstractmethod
    def M(self, theory: Theory) -> float: ...

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        return theory.memo(self, lambda theory: largest_root(theory.L, self.M(theory)))

    def weights(self, theory: Theory) -> PerClient:
        s = self.shares(theory)
        B = theory.over_rare(s)
        return PerClient(np.divide(B, theory.n**2 * s * theory.theta_i, out=np.zeros(theory.n), where=theory.alpha_i < 1))

    def first(self, method: Method) -> int:
        return method.exact_from
