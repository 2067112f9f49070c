"""Gradient descent's gamma = 1/L."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.core import PerClient
from errorfeedback.methods.base import Method
from errorfeedback.methods.dgd import DGD
from errorfeedback.stepsizes.proved import Proved
from errorfeedback.theory.analysis import Theory


@dataclass(frozen=True)
class InverseL(Proved):
    """1/L (Nesterov 2018)."""

    methods: ClassVar[tuple[type[Method], ...]] = (DGD,)

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        return 1.0 / theory.L

    def weights(self, theory: Theory) -> PerClient:
        return PerClient(np.zeros(theory.n))  # Psi = f - f*
