"""VR-MARINA's step size (Gorbunov et al. 2021, Theorem 3.1, with the AB inequality and the exact root):

    gamma = 2/(L + sqrt(L^2 + 4 M^2)) >= 1/(L + M),   M^2 = ((1 - p)/p) (A L_plus^2 + (A + 1/n) L_batch^2),

where A = omega/n for independent clients and L_batch^2 bounds the mean variance of a difference over a batch
(`smoothness.sampled_smoothness`, rows drawn without replacement; theirs, with replacement, is L'^2/b). Given the rows,
the variance of the compressors is at most A (1/n) sum E||d_i(batch)||^2 <= A (L_plus^2 + L_batch^2)||x+ - x||^2; that of the
mean of the batches, drawn independently, is L_batch^2/n ||x+ - x||^2. The rest is MARINA's proof: Psi = f - f* +
(gamma/(2 p)) ||g - grad f||^2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from errorfeedback.methods.base import Method
from errorfeedback.methods.vr_marina import VRMARINA
from errorfeedback.smoothness.sampled_smoothness import sampled_smoothness
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.stepsizes.proved import largest_root
from errorfeedback.theory.analysis import Theory


@dataclass(frozen=True)
class VRMarinaStep(Fixed):
    """For VRMARINA.

    >>> import errorfeedback as ef
    >>> theory = ef.analyse(ef.synthetic(n=10, d=20, m=3, c=2), ef.RandK(1))
    >>> few, all_rows = (ef.VRMarinaStep().gamma(theory, ef.VRMARINA(ef.RandK(1), 0.3, batch)) for batch in (1, 3))
    >>> few < all_rows
    True
    """

    methods: ClassVar[tuple[type[Method], ...]] = (VRMARINA,)

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        assert isinstance(method, VRMARINA), "the step depends on the batch"
        p, A = theory.density if method.p is None else method.p, theory.ab[0]
        batch2 = sampled_smoothness(theory.problem, method.batch) ** 2
        M2 = (1 - p) / p * (A * theory.L_plus**2 + (A + 1 / theory.n) * batch2)
        return largest_root(theory.L, sqrt(M2))
