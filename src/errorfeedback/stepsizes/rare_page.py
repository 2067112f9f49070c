"""EF21-PAGE's step size (of the order of Fatkhullin et al. 2021, Corollary 1; constants and c are ours):

    gamma = 2/(L + sqrt(L^2 + 4 M^2)),   M = sqrt(c/n) (sqrt(X) + S sqrt((1 - p)/p)),
    X = xi^2 (L_plus^2 + 2 sqrt(p (1 - p)) L_plus S + (1 + theta)(1 - p) S^2),

where S bounds how much differences of gradients over a batch differ from the whole ones (`smoothness.sampled_smoothness`).
With P_i = g_i - v_i, Q_i = v_i - grad f_i(x) and the weights a, b of `proof_of`,
    Psi = f(x) - f* + (gamma c/(2 n^2)) sum_i (b ||P_i||^2 + a ||Q_i||^2)
falls in expectation: E Psi+ <= Psi - (gamma/2)||grad f(x)||^2. At p = 1, and where a batch is all rows, it is EF21's.
Proof: docs/theory.md, section 21.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from errorfeedback.methods.base import Method
from errorfeedback.methods.ef21_page import EF21PAGE
from errorfeedback.smoothness.sampled_smoothness import sampled_smoothness
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.stepsizes.proved import largest_root
from errorfeedback.theory.analysis import Theory


@dataclass(frozen=True)
class PAGEProof:
    """The weights of Psi, times gamma c/(2 n^2)."""

    gamma: float
    of_unsent: float
    """b."""
    of_sampling: float
    """a; 0 where v_i is always grad f_i(x)."""


@dataclass(frozen=True)
class RarePAGE(Fixed):
    """For EF21PAGE on problems of rows; `proof_of(...)` is what it promises, in expectation.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=40, m=5, c=4)
    >>> theory = ef.analyse(problem, ef.TopK(1))
    >>> gammas = [ef.RarePAGE().gamma(theory, ef.EF21PAGE(ef.TopK(1), p=p, batch=2)) for p in (0.1, 0.5, 1.0)]
    >>> [round(gamma, 5) for gamma in (*gammas, ef.ExactRoot().gamma(theory))]  # p = 1 is EF21
    [0.00577, 0.00606, 0.01043, 0.01043]
    """

    methods: ClassVar[tuple[type[Method], ...]] = (EF21PAGE,)

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        assert isinstance(method, EF21PAGE), "check() refuses others"
        return self.proof_of(theory, method).gamma

    def proof_of(self, theory: Theory, method: EF21PAGE) -> PAGEProof:
        """Psi for this problem, compressor, p and batch."""
        p, theta, xi2, L_plus = method.p, theory.theta, theory.xi**2, theory.L_plus
        S = sampled_smoothness(theory.problem, method.batch) if p < 1 else 0.0
        X = xi2 * (L_plus**2 + 2 * sqrt(p * (1 - p)) * L_plus * S + (1 + theta) * (1 - p) * S**2)
        Y = (1 - p) / p * S**2
        gamma = largest_root(theory.L, sqrt(theory.c / theory.n) * (sqrt(X) + sqrt(Y)))
        if not Y:
            return PAGEProof(gamma, 1 / theta, 0.0)
        share = sqrt(X) / (sqrt(X) + sqrt(Y))  # of the error that is not sent, in that of the estimate
        of_unsent = 1 / (theta * share) if X else 0.0
        tracking = of_unsent * theory.beta * (p + sqrt(p / (1 - p)) * p * L_plus / S)
        return PAGEProof(gamma, of_unsent, (1 / (1 - share) + tracking) / p)

    def notes(self, theory: Theory, method: Method) -> tuple[str, ...]:
        return (
            "gamma is that of a theorem in expectation, which one run cannot show; RarePAGE().proof_of says its weights",
        )
