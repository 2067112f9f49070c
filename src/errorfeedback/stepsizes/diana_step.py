"""DIANA's step size without convexity (the form of Li, Richtarik 2020; the constant is ours):

    gamma = 2/(L + sqrt(L^2 + 4 M^2)) >= 1/(L + M),   M = sqrt(A) L_plus/theta,   theta = 1 - sqrt(1 - rate),

for E||(1/n) sum_i (C_i(u_i) - u_i)||^2 <= A (1/n) sum_i ||u_i||^2 (A = omega/n for independent clients) and a rate of the
shifts of at most 1/(1 + omega). With G = (1/n) sum_i ||h_i - grad f_i(x)||^2: E g = grad f(x) and E||g - grad f||^2 <= A G
give E f(x+) <= f - gamma ||grad f||^2 + (L gamma^2/2) E||g||^2. The shifts have E||h_i+ - grad f_i(x)||^2 =
((1 - rate)^2 + rate^2 omega)||h_i - grad f_i(x)||^2 <= (1 - rate)||...||^2, and then x moves, so that by Young's inequality
E G+ <= (1 - theta) G + (1/theta) L_plus^2 gamma^2 E||g||^2 (beta of Lemma 10 would be too small here). For
Psi = f - f* + w G the bracket K = L/2 + w L_plus^2/theta must have gamma K <= 1/2 and gamma^2 K A <= w theta; both are
equalities at w = A/(4 K theta), where K^2 - K L/2 - M^2/4 = 0 and gamma = 1/(2 K). Then
E Psi+ <= Psi - (gamma/2)||grad f(x)||^2.

Convex f_i have (1 + 6 omega/n)^-1/L_max (Gorbunov, Hanzely, Richtarik 2020), which needs no xi. In their form, with
D = f(x) - f* and s = (1/n) sum_i ||h_i - grad f_i(x*)||^2, E||g||^2 <= 2 A D + B s and E s+ <= (1 - rate) s + 2 C D have
A = (1 + 2 omega/n) L_max, B = 2 omega/n, C = rate L_max, and gamma = 1/(A + C M) for M = 2 B/rate: then
E Psi+ <= Psi for Psi = ||x - x*||^2 + M gamma^2 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from errorfeedback.compressors.base import Unbiased
from errorfeedback.directions.base import Direction
from errorfeedback.methods.base import Method
from errorfeedback.methods.diana import DIANA
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.stepsizes.proved import largest_root
from errorfeedback.theory.analysis import Theory


def _check_rows(rule: Fixed, method: Method) -> None:
    if isinstance(method, DIANA) and method.batch is not None:
        raise ValueError(
            f"{type(rule).__name__} has no theorem for minibatches, whose noise no constant step outruns; "
            "use batch=None, or ef.Constant(gamma)"
        )


@dataclass(frozen=True)
class DianaStep(Fixed):
    """For DIANA on all rows, convex or not.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> gamma = ef.DianaStep().gamma(ef.analyse(problem, ef.RandK(1)))
    >>> 0 < gamma < ef.InverseL().gamma(ef.analyse(problem))
    True
    """

    methods: ClassVar[tuple[type[Method], ...]] = (DIANA,)

    def check(self, method: Method, direction: Direction) -> None:
        super().check(method, direction)
        _check_rows(self, method)

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        fastest = 1 / (1 + theory.omega)
        rate = method.rate if isinstance(method, DIANA) and method.rate is not None else fastest
        if rate > fastest * (1 + 1e-12):
            raise ValueError(f"rate = {rate}; DianaStep's theorem needs at most 1/(1 + omega) = {fastest:.6g} (rate=None)")
        return largest_root(theory.L, sqrt(theory.ab[0]) * theory.L_plus / (1 - sqrt(1 - rate)))


@dataclass(frozen=True)
class DianaConvex(Fixed):
    """For DIANA on all rows of clients that draw independently, where every f_i is convex.

    >>> import errorfeedback as ef
    >>> theory = ef.analyse(ef.synthetic(n=10, d=20, m=3, c=2), ef.RandK(1))
    >>> round(1 / (ef.DianaConvex().gamma(theory) * theory.L_max) - 1, 6) == round(6 * theory.omega / 10, 6)
    True
    """

    methods: ClassVar[tuple[type[Method], ...]] = (DIANA,)

    def check(self, method: Method, direction: Direction) -> None:
        super().check(method, direction)
        _check_rows(self, method)
        if isinstance(method.compressor, Unbiased) and not method.compressor.independent:
            raise ValueError(f"DianaConvex needs clients that draw independently, and those of {method.compressor} do not")

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        if not theory.convex:
            raise ValueError("DianaConvex has no theorem for f_i that are not convex; use ef.DianaStep()")
        return 1 / ((1 + 6 * theory.omega / theory.n) * theory.L_max)
