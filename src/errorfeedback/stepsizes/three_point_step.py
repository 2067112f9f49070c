"""The step size of three point compressors (Richtarik et al. 2022; c/n and the root are ours):

    gamma = 2/(L + sqrt(L^2 + 4 M^2)) >= 1/(L + M),   M = L_plus sqrt((c/n) max_i B_i/A_i).

What defines them is Lemma 10 with A_i for theta_i and B_i for beta_i, so that section 2's proof goes through word for word
(docs/theory.md, section 18). 1/(L + M) at c = n is their step; with EF21's constants M is Theorem 1's.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from errorfeedback.core import PerClient
from errorfeedback.methods.base import Method
from errorfeedback.methods.three_point import ThreePoint
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.stepsizes.proved import largest_root
from errorfeedback.theory.analysis import Theory
from errorfeedback.theory.proof import Proof


@dataclass(frozen=True)
class ThreePointStep(Fixed):
    """For CLAG and LAG, EF21Plus, and ThreePointV1 to V5.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=40, m=5, c=4)
    >>> theory = ef.analyse(problem, ef.TopK(1))
    >>> lazy = [ef.ThreePointStep().gamma(theory, ef.CLAG(ef.TopK(1), zeta)) for zeta in (0.0, 1000.0)]
    >>> [round(gamma, 5) for gamma in (ef.ExactRoot().gamma(theory), *lazy)]  # zeta = 0 is EF21
    [0.01043, 0.01043, 0.00209]
    """

    methods: ClassVar[tuple[type[Method], ...]] = (ThreePoint,)

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        A, B = _three_point(method).constants(theory.support)
        return largest_root(theory.L, theory.L_plus * sqrt(theory.c / theory.n * float((B / A).max())))

    def proof(self, theory: Theory, method: Method) -> Proof:
        A, _ = _three_point(method).constants(theory.support)
        weights = PerClient(theory.c / (theory.n**2 * A))  # q_i = c/n^2
        return Proof(type(self).__name__, self.gamma(theory, method), weights, 0)


def _three_point(method: Method | None) -> ThreePoint:
    assert isinstance(method, ThreePoint), "check() refuses others"
    return method
