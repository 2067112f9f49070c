"""The spectral rule (ours): the weighted rule with matrices in place of norms.

    M^2 = (B/n^2) lambda_max(sum_i (xi_i^2/s_i) K_i),   s_i = L_i xi_i,   B = max_j sum_{i in I_j} s_i,
K_i = H_i P H_i for least squares, K_i = L_i(P) H_i for other generalised linear models (H_i: the bound on the Hessian of the
rows' part, P: the features that are not sent exactly). A penalty with |phi''| <= 2 lam adds
2 lam sqrt((B/n^2) max_j sum_{i in I_j} xi_i^2/s_i) to M. Without S0 and penalty it is never below `Weighted`:
K_i <= L_i^2 on J_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np

from errorfeedback.core import PerClient
from errorfeedback.methods.base import Method
from errorfeedback.methods.ef21 import EF21
from errorfeedback.smoothness.spectral_constants import weighted_gradient_change
from errorfeedback.stepsizes.proved import LyapunovRule, positive
from errorfeedback.theory.analysis import Theory


@dataclass(frozen=True)
class Spectral(LyapunovRule):
    """For generalised linear models; one eigenvalue.

    >>> import errorfeedback as ef
    >>> theory = ef.analyse(ef.synthetic(n=10, d=20, m=3, c=2), ef.TopK(1))
    >>> round(ef.Spectral().gamma(theory, ef.EF21(ef.TopK(1))), 4), round(ef.RareFeatures().gamma(theory), 4)
    (0.0486, 0.0207)
    """

    methods: ClassVar[tuple[type[Method], ...]] = (EF21,)

    def shares(self, theory: Theory) -> PerClient:
        return positive(PerClient((theory.rows_L_i + theory.smoothness.curvature.diagonal) * theory.xi_i), theory)

    def M(self, theory: Theory) -> float:
        s = self.shares(theory)
        v = PerClient(np.divide(theory.xi_i**2, s, out=np.zeros(theory.n), where=theory.alpha_i < 1))
        if not v.any():
            return 0.0
        change, _ = weighted_gradient_change(theory.smoothness, v, theory.rare_features, theory.rows_L_i)
        return sqrt(theory.over_rare(s)) / theory.n * change
