"""Separable terms phi_i that live on J_i only (appendix), so that they leave Z, c and r as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from errorfeedback.core import Lifted


class Regularizer(Protocol):
    """sum_{j in J_i} phi(x_j), non-negative, with |phi''| <= curvature, attained at 0."""

    @property
    def curvature(self) -> float: ...

    @property
    def convex(self) -> bool: ...

    def values(self, x: Lifted) -> Lifted:
        """phi(x_j) at every position."""

    def slopes(self, x: Lifted) -> Lifted:
        """phi'(x_j) at every position."""


@dataclass(frozen=True)
class NonconvexPenalty:
    """phi_i(x) = lam sum_{j in J_i} x_j^2 / (1 + x_j^2); phi'' lies in [-lam/2, 2 lam].

    >>> NonconvexPenalty(3.0).slopes(np.array([0.0, 1.0]))
    array([0. , 1.5])
    """

    lam: float
    """How much the penalty counts."""

    def __post_init__(self) -> None:
        if not (np.isfinite(self.lam) and self.lam >= 0):
            raise ValueError(f"lam = {self.lam}; the penalty needs a finite lam >= 0")

    @property
    def curvature(self) -> float:
        return 2.0 * self.lam

    @property
    def convex(self) -> bool:
        return self.lam == 0

    def values(self, x: Lifted) -> Lifted:
        return Lifted(self.lam * x**2 / (1.0 + x**2))

    def slopes(self, x: Lifted) -> Lifted:
        return Lifted(2.0 * self.lam * x / (1.0 + x**2) ** 2)


@dataclass(frozen=True)
class NoPenalty:
    """phi_i = 0."""

    @property
    def curvature(self) -> float:
        return 0.0

    @property
    def convex(self) -> bool:
        return True

    def values(self, x: Lifted) -> Lifted:
        return np.zeros_like(x)

    def slopes(self, x: Lifted) -> Lifted:
        return np.zeros_like(x)
