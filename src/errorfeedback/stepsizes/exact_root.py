"""Theorem 1 with nothing given away (ours): M = L_plus sqrt(c/n) max_i xi(alpha_i), gamma = 2/(L + sqrt(L^2 + 4 M^2)).

Three things are sharper than in the paper, with the same proof: the exact root; c counts the clients of the features
that are
not sent exactly; L_plus is the smallest bound at hand (for generalised linear models
L_plus^2 <= lambda_max((1/n) sum_i L_i H_i), never above Lemma 2). s_i = 1, so B = c.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np

from errorfeedback.core import PerClient
from errorfeedback.methods.base import Method
from errorfeedback.methods.ef21 import EF21
from errorfeedback.stepsizes.proved import LyapunovRule
from errorfeedback.theory.analysis import Theory


@dataclass(frozen=True)
class ExactRoot(LyapunovRule):
    """Never below `RareFeatures`.

    >>> import errorfeedback as ef
    >>> theory = ef.analyse(ef.synthetic(n=10, d=20, m=3, c=2), ef.TopK(1))
    >>> round(ef.ExactRoot().gamma(theory, ef.EF21(ef.TopK(1))), 4), round(ef.RareFeatures().gamma(theory), 4)
    (0.0214, 0.0207)
    """

    methods: ClassVar[tuple[type[Method], ...]] = (EF21,)

    def shares(self, theory: Theory) -> PerClient:
        return PerClient(np.asarray(theory.alpha_i < 1, dtype=np.float64))

    def M(self, theory: Theory) -> float:
        c = theory.over_rare(self.shares(theory))
        return theory.L_plus_spectral * sqrt(c / theory.n) * float(theory.xi_i.max())
