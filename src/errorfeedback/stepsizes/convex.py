"""The convex rule (ours; all f_i convex): M^2 = (L/n) max_j sum_{i in I_j} L_i xi(alpha_i)^2.

Co-coercivity: ||grad f_i(x+) - grad f_i(x)||^2 <= L_i <grad f_i(x+) - grad f_i(x), x+ - x>. Choose s_i = L_i xi_i^2; then
sum q_i xi_i^2 ||...||^2 <= (B/n^2) sum_i <grad f_i(x+) - grad f_i(x), x+ - x> = (B/n) <grad f(x+) - grad f(x), x+ - x>
<= (B/n) L ||x+ - x||^2. The maximum B is over the features that are not sent exactly, and L_i is the smoothness of f_i in
those alone: co-coercivity holds blockwise, ||P(grad f_i(x+) - grad f_i(x))||^2 <= L_i(P) <grad f_i(x+) - grad f_i(x),
x+ - x>.
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
class Convex(LyapunovRule):
    """For convex f_i: M grows like sqrt(L), and not like the L_i themselves.

    >>> import errorfeedback as ef
    >>> theory = ef.analyse(ef.synthetic(n=10, d=20, m=3, c=2), ef.TopK(1))
    >>> round(ef.Convex().gamma(theory, ef.EF21(ef.TopK(1))), 4), round(ef.RareFeatures().gamma(theory), 4)
    (0.0388, 0.0207)
    """

    methods: ClassVar[tuple[type[Method], ...]] = (EF21,)

    def missing(self, theory: Theory) -> str:
        return "" if theory.convex else "some f_i is not convex (the loss or the penalty is not)"

    def shares(self, theory: Theory) -> PerClient:
        return positive(PerClient(theory.rows_L_i * theory.xi_i**2), theory)

    def M(self, theory: Theory) -> float:
        return sqrt(theory.L / theory.n * theory.over_rare(self.shares(theory)))
