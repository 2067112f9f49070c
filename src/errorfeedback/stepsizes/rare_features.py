"""Theorem 1: gamma = 1/(L + L_plus sqrt(c/n) xi(alpha)), the step size that knows that features are rare."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np

from errorfeedback.core import PerClient
from errorfeedback.methods.base import Method
from errorfeedback.methods.ef21 import EF21
from errorfeedback.stepsizes.ef21_standard import ALPHAS
from errorfeedback.stepsizes.proved import Proved
from errorfeedback.theory.analysis import Theory, xi


@dataclass(frozen=True)
class RareFeatures(Proved):
    """Theorem 1, with its own alpha = min_i K_i/|J_i|; "K/d" is what the authors' code used (a smaller step)."""

    methods: ClassVar[tuple[type[Method], ...]] = (EF21,)
    alpha: str = "K/|J_i|"
    """Which contraction: "K/d" or "K/|J_i|"."""

    def __post_init__(self) -> None:
        if self.alpha not in ALPHAS:
            raise ValueError(f"alpha = {self.alpha!r}; it must be one of {', '.join(ALPHAS)}")

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        return 1.0 / (theory.L + theory.L_plus * sqrt(theory.c / theory.n) * xi(ALPHAS[self.alpha](theory)))

    def weights(self, theory: Theory) -> PerClient:
        weight = theory.c / (theory.n**2 * (1 - sqrt(1 - ALPHAS[self.alpha](theory))))  # q_i = c/n^2
        return PerClient(np.full(theory.n, weight))
