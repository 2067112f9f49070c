"""EF21-SGDM's step size (Theorem 3 of Fatkhullin, Tyurin, Richtarik 2023, in its form; constants and c are ours):

    gamma = 2/(L + sqrt(L^2 + 4 M^2)) >= 1/(L/eta + L_plus sqrt(c/n) xi),   M = (1 - eta)/eta L + L_plus sqrt(c/n) xi(alpha).

With P_i = g_i - v_i, Q_i = v_i - grad f_i(x), Q = (1/n) sum_i Q_i and noise E||grad f_i(x; batch) - grad f_i(x)||^2 <= s_i,
    Psi = f(x) - f* + A ||Q||^2 + B (1/n) sum_i ||P_i||^2 + C (1/n) sum_i ||Q_i||^2
falls in expectation, E Psi+ <= Psi - (gamma/2)||grad f(x)||^2 + N (1/n) sum_i s_i, where for p = (1 - eta)/eta L and
q = L_plus sqrt(c/n) xi
    A = gamma M/(2 eta p),   B = gamma c M/(2 n theta q),   C = B beta eta/(1 - eta),   N = eta^2 (A/n + (1 - alpha) B + C),
so that (1/T) sum_{t<T} E||grad f(x^t)||^2 <= 2 Psi^0/(gamma T) + 2 N mean_i s_i / gamma: the noise has the weights eta/n,
eta^2/alpha and eta^3/alpha^2 of their theorem. Their step is of the order min(alpha/L_tilde, eta/L); at eta = 1 and without
noise ours is Theorem 1's for EF21. Proof, and why gamma is the largest for this Psi: docs/theory.md, section 17.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np

from errorfeedback.directions.base import Direction
from errorfeedback.methods.base import Method
from errorfeedback.methods.ef21_sgdm import EF21SGDM
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.stepsizes.proved import largest_root
from errorfeedback.theory.analysis import Theory

SLOWEST, FASTEST, TRIED = 1e-4, 0.999, 400
"""The eta among which the best one is sought."""


@dataclass(frozen=True)
class MomentumProof:
    """The weights of Psi, and what noise adds in a round."""

    gamma: float
    of_mean: float
    """A."""
    of_unsent: float
    """B."""
    of_momentum: float
    """C."""
    noise: float
    """N, for a mean variance of 1."""

    def bound(self, rounds: int, psi: float, sigma2: float) -> float:
        """On the mean of E||grad f(x^t)||^2 over so many rounds from E Psi^0 = psi; sigma2 is the mean of the s_i."""
        return 2 * (psi / rounds + self.noise * sigma2) / self.gamma


@dataclass(frozen=True)
class RareMomentum(Fixed):
    """For EF21SGDM. `eta(...)` is the momentum that its theorem says is best, `proof_of(...)` what it promises.

    >>> import errorfeedback as ef
    >>> theory = ef.analyse(ef.synthetic(n=10, d=40, m=5, c=4), ef.TopK(1))
    >>> few, many = (ef.RareMomentum().eta(theory, rounds=T, gap=1.0, sigma2=1.0) for T in (100, 100_000))
    >>> few > many
    True
    """

    methods: ClassVar[tuple[type[Method], ...]] = (EF21SGDM,)

    def check(self, method: Method, direction: Direction) -> None:
        super().check(method, direction)
        if isinstance(method, EF21SGDM) and method.eta == 1 and method.batch is not None:
            raise ValueError(
                f"eta = 1 with batch = {method.batch}: without momentum the noise of minibatches is not averaged, and the "
                "theorem says nothing; choose eta below 1, or batch=None"
            )

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        assert isinstance(method, EF21SGDM), "check() refuses others"
        return largest_root(theory.L, sum(_slacks(theory, method.eta)))

    def proof_of(self, theory: Theory, eta: float) -> MomentumProof:
        """For eta below 1."""
        if not 0 < eta < 1:
            raise ValueError(f"eta = {eta}; the theorem is about momentum, with eta above 0 and below 1")
        p, q = _slacks(theory, eta)
        M, n = p + q, theory.n
        gamma = largest_root(theory.L, M)
        A = gamma * M / (2 * eta * p)
        B = gamma * theory.c * M / (2 * n * theory.theta * q) if q else 0.0  # alpha = 1: nothing is left unsent
        C = B * theory.beta * eta / (1 - eta)
        return MomentumProof(gamma, A, B, C, eta**2 * (A / n + (1 - theory.alpha) * B + C))

    def eta(self, theory: Theory, *, rounds: int, gap: float, sigma2: float) -> float:
        """The eta with the least bound after so many rounds, from f(x^0) - f* = gap; sigma2: the mean over clients of the
        variance of their gradients (`ef.sampling_noise`)."""
        tried = np.geomspace(SLOWEST, FASTEST, TRIED)
        bounds = [self.proof_of(theory, eta).bound(rounds, gap, sigma2) for eta in tried.tolist()]
        return float(tried[int(np.argmin(bounds))])

    def notes(self, theory: Theory, method: Method) -> tuple[str, ...]:
        return (
            "gamma is that of a theorem in expectation, which one run cannot show; RareMomentum().proof_of says its bound",
        )


def _slacks(theory: Theory, eta: float) -> tuple[float, float]:
    """p and q."""
    return (1 - eta) / eta * theory.L, theory.L_plus * sqrt(theory.c / theory.n) * theory.xi
