"""CoCoA+'s gamma = 1, the sum of all changes (Ma et al. 2015, Theorem 8, in its form with our c): where sigma >= gamma c,

    ||sum_i v_i||^2 <= c sum_i ||v_i||^2   for v_i on J_i   (Lemma 4),

the dual objective rises by at least what the clients' subproblems rise by together, so that it never falls; and f + R goes
to its minimum linearly where the loss is smooth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from errorfeedback.methods.base import Method
from errorfeedback.methods.cocoa import CoCoAPlus
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.theory.analysis import Theory


@dataclass(frozen=True)
class CocoaStep(Fixed):
    """For CoCoAPlus with a sigma that is safe.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> ef.solve(problem, ef.CoCoAPlus(sigma=1.0), ef.CocoaStep(), rounds=1)
    Traceback (most recent call last):
    ...
    ValueError: sigma = 1.0; CocoaStep's theorem needs at least c = 2 (sigma=None)
    """

    methods: ClassVar[tuple[type[Method], ...]] = (CoCoAPlus,)

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        if isinstance(method, CoCoAPlus) and method.sigma is not None and method.sigma < theory.c:
            raise ValueError(f"sigma = {method.sigma}; CocoaStep's theorem needs at least c = {theory.c} (sigma=None)")
        return 1.0
