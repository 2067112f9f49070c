"""The weighted rule (ours; non-convex): M = (1/n) max_j sum_{i in I_j} L_i xi(alpha_i).

Choose s_i = L_i xi_i, that is q_i = (B/n^2)/(L_i xi_i) with B = max_j sum_{i in I_j} L_i xi_i. Lemma 6,
||grad f_i(x+) - grad f_i(x)||^2 <= L_i^2 ||(x+ - x)_{J_i}||^2, gives sum q_i xi_i^2 L_i^2 ||(x+ - x)_{J_i}||^2 <= M^2
||x+ - x||^2.
With a set S0 sent exactly, B is over j outside S0 only: M^2 = (1/n^2) max_{j not in S0}(...) max_j(...).

No minimum over alpha_i: every client counts with its own K_i, |J_i| and p_i. Never below Theorem 1 with Lemma 2's
L_plus: (max_j sum L_i)^2 <= c max_j sum L_i^2 (Cauchy-Schwarz).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from errorfeedback.core import PerClient
from errorfeedback.methods.base import Method
from errorfeedback.methods.ef21 import EF21
from errorfeedback.stepsizes.proved import LyapunovRule, positive
from errorfeedback.theory.analysis import Theory


@dataclass(frozen=True)
class Weighted(LyapunovRule):
    """For any smooth f_i.

    >>> import errorfeedback as ef
    >>> theory = ef.analyse(ef.synthetic(n=10, d=20, m=3, c=2), ef.TopK(1))
    >>> round(ef.Weighted().gamma(theory, ef.EF21(ef.TopK(1))), 4), round(ef.RareFeatures().gamma(theory), 4)
    (0.0456, 0.0207)
    """

    methods: ClassVar[tuple[type[Method], ...]] = (EF21,)

    def shares(self, theory: Theory) -> PerClient:
        return positive(PerClient(theory.L_i * theory.xi_i), theory)

    def M(self, theory: Theory) -> float:
        s = self.shares(theory)
        return sqrt(theory.over_rare(s) * theory.support.max_over_features(s)) / theory.n
