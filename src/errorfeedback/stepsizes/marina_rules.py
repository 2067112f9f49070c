"""MARINA's step sizes for a full upload with probability p.

Independent unbiased compressors (Gorbunov et al. 2021, Theorem 2.1): gamma = 1/(L + L_tilde sqrt((1-p) omega/(p n))).
AB inequality (Szlendak et al. 2022, Theorem 4): gamma = 1/(L + sqrt(((1-p)/p) ((A - B) L_plus^2 + B L_pm^2))). Where
A < B, as for PermK on rare features, the variance A mean||u_i||^2 - B ||mean u_i||^2 is at most
A (mean||u_i||^2 - ||mean u_i||^2): then B counts as A.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from errorfeedback.compressors.base import Unbiased
from errorfeedback.directions.base import Direction
from errorfeedback.methods.base import Method
from errorfeedback.methods.marina import MARINA
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.theory.analysis import Theory


def _odds(theory: Theory, method: Method | None) -> float:
    """(1 - p)/p."""
    p = method.p if isinstance(method, MARINA) and method.p is not None else theory.density
    return (1 - p) / p


@dataclass(frozen=True)
class MarinaIndependent(Fixed):
    """For clients that draw independently (RandK)."""

    methods: ClassVar[tuple[type[Method], ...]] = (MARINA,)

    def check(self, method: Method, direction: Direction) -> None:
        super().check(method, direction)
        if isinstance(method.compressor, Unbiased) and not method.compressor.independent:
            raise ValueError(
                f"MarinaIndependent needs clients that draw independently, and those of {method.compressor} do not; "
                "use ef.MarinaAB()"
            )

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        return 1.0 / (theory.L + theory.L_tilde * sqrt(_odds(theory, method) * theory.omega / theory.n))


@dataclass(frozen=True)
class MarinaAB(Fixed):
    """For any unbiased compressor with an AB inequality (PermK).

    >>> import errorfeedback as ef
    >>> theory = ef.analyse(ef.synthetic(n=10, d=20, m=3, c=2), ef.PermK())
    >>> round(ef.MarinaAB().gamma(theory, ef.MARINA(ef.PermK(), 0.25)), 4)
    0.1273
    """

    methods: ClassVar[tuple[type[Method], ...]] = (MARINA,)

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        A, B = theory.ab
        variance = max(A - B, 0.0) * theory.L_plus**2 + min(A, B) * theory.L_pm**2
        return 1.0 / (theory.L + sqrt(_odds(theory, method) * variance))
