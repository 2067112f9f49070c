"""All a theorem may look at: the sparsity, the smoothness and the compressor's constants of one problem.

alpha = min_i alpha_i, theta = 1 - sqrt(1 - alpha), beta = (1 - alpha)/theta, xi = sqrt(beta/theta) (Lemma 11);
the Lyapunov function and the bound of Theorem 1.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from errorfeedback.compressors.base import Compressor, Contractive, Unbiased
from errorfeedback.compressors.identity import Identity
from errorfeedback.core import Integers, PerClient
from errorfeedback.problems.base import Problem
from errorfeedback.smoothness.constants import Smoothness, smoothness
from errorfeedback.smoothness.spectral_constants import L_plus_spectral, over_features, rows_L_i_of
from errorfeedback.sparsity.support import Support

T = TypeVar("T")


def xi(alpha: float) -> float:
    """sqrt(beta/theta) = (sqrt(1 - alpha) + 1 - alpha)/alpha (Lemma 11), `alpha` in (0, 1] the contraction.

    >>> xi(1.0), xi(0.75)
    (0.0, 1.0)
    """
    s = np.sqrt(1 - alpha)
    return float(s * (1 + s) / alpha)


@dataclass(frozen=True, eq=False)
class Theory:
    """Constants of a problem with a compressor. Made by `analyse`; the expensive ones are computed when asked for.

    >>> import errorfeedback as ef
    >>> theory = ef.analyse(ef.synthetic(n=10, d=20, m=3, c=2), ef.TopK(1))
    >>> theory.c, theory.r, float(theory.alpha), round(theory.L, 3), round(theory.L_plus, 3)
    (2, 8, 0.125, 2.91, 6.998)
    """

    problem: Problem
    """Whose constants they are."""
    compressor: Compressor
    """Whose alpha or omega it is."""
    _memo: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def memo(self, key: Hashable, make: Callable[[Theory], T]) -> T:
        """make(self), computed once per key."""
        if key not in self._memo:
            self._memo[key] = make(self)
        return self._memo[key]

    @property
    def support(self) -> Support:
        return self.problem.support

    @property
    def n(self) -> int:
        return self.problem.n

    @property
    def d(self) -> int:
        """Active features."""
        return self.problem.d

    @property
    def c(self) -> int:
        """The most clients that share a feature."""
        return self.support.c

    @property
    def r(self) -> int:
        """The most features of a client."""
        return self.support.r

    @property
    def sizes(self) -> Integers:
        """|J_i|."""
        return self.support.sizes

    @property
    def smoothness(self) -> Smoothness:
        return smoothness(self.problem)

    @property
    def L(self) -> float:
        return self.smoothness.L

    @property
    def L_i(self) -> PerClient:
        return self.smoothness.L_i

    @property
    def L_max(self) -> float:
        return self.smoothness.L_max

    @property
    def L_tilde(self) -> float:
        return self.smoothness.L_tilde

    @property
    def L_plus(self) -> float:
        return self.smoothness.L_plus

    @property
    def L_plus_exact(self) -> bool:
        """Whether L_plus is the constant itself and not a bound on it."""
        return self.smoothness.L_plus_exact

    @property
    def L_pm(self) -> float:
        return self.smoothness.L_pm

    @property
    def how(self) -> dict[str, str]:
        """How each constant was computed."""
        return self.smoothness.how

    @cached_property
    def alpha_i(self) -> PerClient:
        """The contraction on R^{|J_i|} (Lemma 3)."""
        return self._contractive.alpha(self.support)

    @property
    def _contractive(self) -> Contractive:
        if not isinstance(self.compressor, Contractive):
            raise ValueError(f"{self.compressor} is not contractive and has no alpha; RandK has .contractive()")
        return self.compressor

    @property
    def alpha(self) -> float:
        return float(self.alpha_i.min())

    @property
    def theta(self) -> float:
        return float(1 - np.sqrt(1 - self.alpha))

    @cached_property
    def theta_i(self) -> PerClient:
        """1 - sqrt(1 - alpha_i): every client's own contraction (Lemma 10 per client)."""
        return PerClient(1 - np.sqrt(1 - self.alpha_i))

    @cached_property
    def xi_i(self) -> PerClient:
        """xi(alpha_i)."""
        s = np.sqrt(1 - self.alpha_i)
        return PerClient(np.asarray(s * (1 + s) / self.alpha_i))

    @cached_property
    def rare(self) -> NDArray[np.bool_]:
        """(d,): the features that carry an error from round 1 on, namely all that are not sent exactly."""
        return ~self._contractive.exact(self.support)

    @cached_property
    def rare_features(self) -> NDArray[np.bool_]:
        """The features of the data of which some number is rare: all its numbers have the same owners and curvature."""
        return np.logical_or.reduceat(self.rare, np.arange(0, self.d, self.support.outputs))

    @cached_property
    def rows_L_i(self) -> PerClient:
        """The smoothness of the rows' part of f_i in the rare features, ||P H_i P||."""
        return rows_L_i_of(self.problem, self.rare_features)

    def over_rare(self, weights: PerClient) -> float:
        """max over rare features j of sum_{i in I_j} w_i."""
        return over_features(self.smoothness, weights, self.rare_features)

    @property
    def convex(self) -> bool:
        """Whether every f_i is convex."""
        return self.smoothness.convex

    @property
    def L_plus_spectral(self) -> float:
        """The smallest bound on L_plus that we have."""
        return L_plus_spectral(self.problem)[0]

    @property
    def beta(self) -> float:
        return (1 - self.alpha) / self.theta

    @property
    def xi(self) -> float:
        return xi(self.alpha)

    @cached_property
    def omega_i(self) -> PerClient:
        """The variance of an unbiased compressor on R^{|J_i|}."""
        return self._unbiased.omega(self.support)

    @property
    def omega(self) -> float:
        return float(self.omega_i.max())

    @property
    def ab(self) -> tuple[float, float]:
        """(A, B) of the AB inequality."""
        return self._unbiased.ab(self.support)

    @property
    def density(self) -> float:
        """The expected share of entries that the compressor sends."""
        return self.compressor.density(self.support)

    @property
    def _unbiased(self) -> Unbiased:
        if not isinstance(self.compressor, Unbiased):
            raise ValueError(f"{self.compressor} is not unbiased and has no omega")
        return self.compressor

    @property
    def condition_ii(self) -> bool:
        """Condition (ii) of Table 1, sqrt(c/n) L_plus <= L, up to the 1e-9 to which both are known.

        L <= sqrt(c/n) L_plus always (Lemma 4; docs/theory.md, section 8): it can hold as an equality only, as at c = 1.
        """
        return bool(np.sqrt(self.c / self.n) * self.L_plus <= self.L * (1 + 1e-9))

    @property
    def numbers_over_dgd(self) -> float:
        """The numbers that Theorem 1 promises to send, over those of a DGD that sends the |J_i| numbers a client has.

        density (L + sqrt(c/n) L_plus xi)/L, with f(x^0) - f* the same for both and G^0 = 0; from 1 to almost 2 for TopK
        where (ii) holds and all |J_i| are equal, and more where it does not.
        """
        return self.density * (1 + np.sqrt(self.c / self.n) * self.L_plus * self.xi / self.L)

    def lyapunov(self, f: float, G: float, gamma: float, f_star: float = 0.0) -> float:
        """Psi = f(x) - f* + (gamma c / (2 theta n)) G (equation 21)."""
        return f - f_star + gamma * self.c / (2 * self.theta * self.n) * G

    def bound(self, rounds: int, f0: float, G0: float, gamma: float, f_star: float = 0.0) -> float:
        """Theorem 1: (1/T) sum_{t<T} ||grad f(x^t)||^2 <= 2 (f(x^0) - f*)/(gamma T) + (c/n) G^0/(theta T)."""
        return 2 * (f0 - f_star) / (gamma * rounds) + self.c / self.n * G0 / (self.theta * rounds)

    def __str__(self) -> str:
        s, how = self.smoothness, self.how
        lines = [
            str(self.problem),
            f"c/n = {self.c / self.n:.4g}, r/d = {self.r / self.d:.4g}, |J_i| from {self.sizes.min()} to {self.sizes.max()}",
            f"L = {s.L:.6g}  {how['L']}",
            f"L_i from {s.L_i.min():.6g} to L_max = {s.L_max:.6g}, L_tilde = {s.L_tilde:.6g}  {how['L_i']}",
            f"L_plus = {s.L_plus:.6g}  {how['L_plus']}",
        ]
        if isinstance(self.compressor, Contractive):
            lines.append(f"{self.compressor}: alpha = {self.alpha:.6g}, theta = {self.theta:.6g}, xi = {self.xi:.6g}")
        if isinstance(self.compressor, Unbiased):
            A, B = self.ab
            lines.append(f"{self.compressor}: omega = {self.omega:.6g}, A = {A:.6g}, B = {B:.6g}")
        verdict = "holds, as the equality that it can only be" if self.condition_ii else "does not hold"
        left = np.sqrt(self.c / self.n) * s.L_plus
        lines.append(
            f"condition (ii), sqrt(c/n) L_plus <= L: {verdict} ({left:.6g} against {s.L:.6g}; the left side is never the "
            "smaller one: docs/theory.md, section 8)"
        )
        if isinstance(self.compressor, Contractive):
            lines.append(
                f"Theorem 1 promises {self.numbers_over_dgd:.3g} times the numbers of a DGD that sends each client's |J_i|"
            )
        return "\n".join(lines)


def analyse(problem: Problem, compressor: Compressor | None = None) -> Theory:
    """The constants of `problem` with `compressor` (none: every client sends everything)."""
    compressor = Identity() if compressor is None else compressor
    compressor.check(problem.support)
    return Theory(problem, compressor)
