"""EControl's step size, by a theorem of our own (Gao, Islamov, Stich 2023 have one of the same order):

    gamma = 2/(L + sqrt(L^2 + 4 M^2)) >= 1/(L + M),   M = L_plus sqrt(c/n) chi,   chi = s/(1 - s - (eta/2)(1 + s)),

for s = sqrt(1 - alpha) and eta < 2 (1 - s)/(1 + s). At eta = 0 chi is xi, and gamma that of EF21.

With u_i = eta e_i + grad f_i(x) - h_i what is compressed, and r_i = u_i - C(u_i) what is lost of it, ||r_i|| <= s ||u_i||, a
round is linear in r_i and in d_i, the change of grad f_i (in round 0: grad f_i(x^0) itself):

    e_i+ = (1 - eta) e_i + r_i,   u_i+ = (1 + eta) r_i - eta^2 e_i + d_i+,   h_i+ - grad f_i(x) = eta e_i - r_i.

So u is d plus r through the filter (1 + eta) - eta^2/(z - 1 + eta), whose gain on |z| = 1 is at most (2 + eta)/(2 - eta), at
z = -1; and the error of the estimate is r through eta/(z - 1 + eta) - 1, whose gain there is 2/(2 - eta). With ||.|| over
all clients and all rounds until T, ||u|| <= (2 + eta)/(2 - eta) s ||u|| + ||d||, hence ||h+ - grad f_i|| <= chi ||d||. The
descent lemma (Lemma 9), summed up, with Lemma 4 and (1/n) sum_i ||d_i+||^2 <= L_plus^2 ||x+ - x||^2 leaves
1 - gamma L - gamma^2 M^2 >= 0, and with G = (1/n) sum_i ||grad f_i(x^0)||^2

    (1/T) sum_{t < T} ||grad f(x^t)||^2 <= 2 (f(x^0) - f*)/(gamma T) + (c/n) chi^2 G/T.

Random compressors have the same in expectation. chi is reached, by C(u) = (1 + s) u where d changes its sign every round.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from errorfeedback.directions.base import Direction
from errorfeedback.methods.base import Method
from errorfeedback.methods.e_control import EControl
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.stepsizes.proved import largest_root
from errorfeedback.theory.analysis import Theory


@dataclass(frozen=True)
class EControlStep(Fixed):
    """For EControl on all rows.

    >>> import errorfeedback as ef
    >>> theory = ef.analyse(ef.synthetic(n=10, d=20, m=3, c=2), ef.TopK(1))
    >>> more, none = (ef.EControlStep().gamma(theory, ef.EControl(ef.TopK(1), eta=eta)) for eta in (0.01, 0.0))
    >>> M = theory.L_plus * (theory.c / theory.n) ** 0.5 * theory.xi  # Theorem 1's
    >>> more < none, round(none / largest_root(theory.L, M), 9)
    (True, 1.0)
    """

    methods: ClassVar[tuple[type[Method], ...]] = (EControl,)

    def check(self, method: Method, direction: Direction) -> None:
        super().check(method, direction)
        if isinstance(method, EControl) and method.batch is not None:
            raise ValueError(
                "EControlStep has no theorem for minibatches, whose noise no constant step outruns; use batch=None, or "
                "ef.Constant(gamma)"
            )

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        return largest_root(theory.L, theory.L_plus * sqrt(theory.c / theory.n) * self.chi(theory, method))

    def chi(self, theory: Theory, method: Method | None) -> float:
        """How far the estimates are behind, in units of how far the gradients move."""
        assert isinstance(method, EControl), "check() refuses others"
        s, eta = sqrt(1 - theory.alpha), method.bind(theory.support).feedback
        left = 1 - s - eta / 2 * (1 + s)
        if left <= 0:
            most = 2 * (1 - s) / (1 + s)
            raise ValueError(
                f"eta = {eta}; EControlStep's theorem needs less than 2 (1 - s)/(1 + s) = {most:.6g} (eta=None)"
            )
        return s / left

    def bound(self, theory: Theory, method: EControl, rounds: int, gap: float, G: float) -> float:
        """On the mean of ||grad f||^2 over so many rounds, from f(x^0) - f* = gap and G, the mean of ||grad f_i(x^0)||^2."""
        chi2 = self.chi(theory, method) ** 2
        return 2 * gap / (self.gamma(theory, method) * rounds) + theory.c / theory.n * chi2 * G / rounds
