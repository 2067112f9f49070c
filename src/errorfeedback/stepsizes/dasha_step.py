"""DASHA's step size (the Lyapunov function of Tyurin, Richtarik 2022, Theorem 6.1, with every coefficient as small as it may
be):

    gamma = 2/(L + sqrt(L^2 + 4 M^2)) >= 1/(L + M),   M^2 = 2 (2 omega + 1) A L_plus^2,   a = 1/(2 omega + 1),

where A = omega/n for independent clients; they have 16 omega (2 omega + 1)/n L_tilde^2. With e_i = g_i - grad f_i(x),
delta_i = grad f_i(x+) - grad f_i(x) and u_i = delta_i - a e_i a round leaves e_i+ = (1 - a) e_i + C_i(u_i) - u_i, hence

    E||e+||^2 <= (1 - a)^2 ||e||^2 + A (1/n) sum ||u_i||^2  for e = (1/n) sum e_i,   E||e_i+||^2 <= (1 - a)^2 ||e_i||^2 +
    omega ||u_i||^2,   ||u_i||^2 <= 2 ||delta_i||^2 + 2 a^2 ||e_i||^2.

Psi = f - f* + (gamma/2) (P ||e||^2 + Q (1/n) sum ||e_i||^2) falls by (gamma/2)||grad f||^2 in expectation for
P = 1/(a (2 - a)), Q = 2 a P A and 1 - gamma L - gamma^2 M^2 >= 0, M^2 = 2 (P A + Q omega) L_plus^2, which at this a is the M
above. Another a has Q = 2 a^2 P A/(a (2 - a) - 2 omega a^2), where the bracket is positive.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from errorfeedback.methods.base import Method
from errorfeedback.methods.dasha import DASHA
from errorfeedback.methods.dasha_pp import DASHAPP
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.stepsizes.proved import largest_root
from errorfeedback.theory.analysis import Theory


@dataclass(frozen=True)
class DashaStep(Fixed):
    """For DASHA.

    >>> import errorfeedback as ef
    >>> theory = ef.analyse(ef.synthetic(n=10, d=20, m=3, c=2), ef.RandK(1))
    >>> ef.DashaStep().gamma(theory) > ef.DianaStep().gamma(theory)  # omega/sqrt(n) in place of omega^1.5/sqrt(n)
    True
    """

    methods: ClassVar[tuple[type[Method], ...]] = (DASHA,)

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        A, omega = theory.ab[0], theory.omega
        a = method.a if isinstance(method, DASHA) and method.a is not None else 1 / (2 * omega + 1)
        P, left = 1 / (a * (2 - a)), a * (2 - a) - 2 * omega * a**2
        if left <= 0:
            raise ValueError(f"a = {a}; DashaStep's theorem needs a below 2/(2 omega + 1) = {2 / (2 * omega + 1):.6g}")
        Q = 2 * a**2 * P * A / left
        return largest_root(theory.L, sqrt(2 * (P * A + Q * omega)) * theory.L_plus)


@dataclass(frozen=True)
class DashaPPStep(Fixed):
    """For DASHA with clients that answer with probability p (ours; theirs has 48 omega (2 omega + 1)/(n p^2) +
    16 (1 - p)/(n p^2) times L_tilde^2 in place of M^2).

    With e_i = g_i - h_i, d_i = h_i - grad f_i(x), k_i = delta_i - b d_i and U_i = ||k_i - a e_i||^2 the means are
    E e_i+ = (1 - a) e_i, E d_i+ = (1 - b) d_i, and the variances (omega/p) U_i + ((1 - p)/p) a^2 ||e_i||^2 and
    ((1 - p)/p) ||k_i||^2. With ||g - grad f||^2 <= 2||e||^2 + 2||d||^2, U_i <= 3 (||delta_i||^2 + b^2||d_i||^2 +
    a^2||e_i||^2) and ||k_i||^2 <= 2 (||delta_i||^2 + b^2 ||d_i||^2) the weights below make
    Psi = f - f* + (gamma/2) (P_e ||e||^2 + Q_e mean||e_i||^2 + P_d ||d||^2 + Q_d mean||d_i||^2) fall in expectation.

    >>> import errorfeedback as ef
    >>> problem, steps = ef.synthetic(n=10, d=20, m=3, c=2), []
    >>> for p in (0.1, 0.5, 0.9):
    ...     method = ef.DASHAPP(ef.SomeClients(ef.RandK(1), p))
    ...     steps.append(ef.DashaPPStep().gamma(ef.analyse(problem, method.compressor), method))
    >>> steps == sorted(steps)  # the more clients answer, the longer
    True
    """

    methods: ClassVar[tuple[type[Method], ...]] = (DASHAPP,)

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        assert isinstance(method, DASHAPP), "the step depends on who answers"
        P_e, Q_e, P_d, Q_d = self.weights(theory, method)
        p, omega, n = method.p, self._omega(theory, method), theory.n
        M2 = (P_e / n + Q_e) * 3 * omega / p + (P_d / n + Q_d) * 2 * (1 - p) / p
        return largest_root(theory.L, sqrt(M2) * theory.L_plus)

    def weights(self, theory: Theory, method: DASHAPP) -> tuple[float, float, float, float]:
        """P_e, Q_e, P_d, Q_d."""
        p, omega, n, b = method.p, self._omega(theory, method), theory.n, method.b
        a = p / (2 * omega + 1) if method.a is None else method.a
        P_e, P_d = 2 / (a * (2 - a)), 2 / (b * (2 - b))
        of_e, of_d = a**2 * (3 * omega + 1 - p) / p, 2 * b**2 * (1 - p) / p
        if a * (2 - a) <= of_e:
            raise ValueError(f"a = {a}; DashaPPStep's theorem needs a smaller one (a=None)")
        Q_e = P_e / n * of_e / (a * (2 - a) - of_e)
        Q_d = ((P_e / n + Q_e) * 3 * omega * b**2 / p + P_d / n * of_d) / (b * (2 - b) - of_d)
        return P_e, Q_e, P_d, Q_d

    def _omega(self, theory: Theory, method: DASHAPP) -> float:
        """Of those that answer."""
        return float(method.some.compressor.omega(theory.support).max())
