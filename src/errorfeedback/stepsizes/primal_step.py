"""EF21-P's step size for gradient descent (Gruntkowska et al. 2023 have the order alpha/L; the constants are ours):

    gamma = 2/(L + sqrt(L^2 + 4 (L xi)^2)) >= 1/(L + L xi(alpha)),

alpha being that of the server's compressor on R^d. With e = x - w, Psi = f(x) - f* + (gamma L^2/(2 theta)) ||e||^2 falls:
Psi+ <= Psi - (gamma/2)||grad f(x)||^2, x being the server's. Proof, and why no larger gamma will do: docs/theory.md,
section 20.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from errorfeedback.compressors.base import Contractive
from errorfeedback.compressors.top_k import TopK
from errorfeedback.directions.base import Direction
from errorfeedback.downlinks.base import Downlink
from errorfeedback.downlinks.compressed import all_features
from errorfeedback.downlinks.primal import Primal
from errorfeedback.methods.base import Method
from errorfeedback.methods.dgd import DGD
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.stepsizes.proved import largest_root
from errorfeedback.theory.analysis import Theory, xi


@dataclass(frozen=True)
class PrimalStep(Fixed):
    """For DGD with `Primal(compressor)`, the same compressor."""

    methods: ClassVar[tuple[type[Method], ...]] = ()  # none by itself: it is about a method with a downlink
    compressor: Contractive = field(default=TopK(1))

    def check(self, method: Method, direction: Direction) -> None:
        if not (isinstance(method, DGD) and direction.is_estimate):
            raise ValueError(
                f"PrimalStep is a rule for DGD along its estimate, and has no theorem for {type(method).__name__} with "
                f"{direction}; use ef.Constant(gamma) to choose a step size yourself"
            )

    def check_downlink(self, downlink: Downlink) -> None:
        if downlink != Primal(self.compressor):
            raise ValueError(f"{self} has no theorem for the downlink {downlink}; use ef.Primal({self.compressor})")

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        alpha = float(self.compressor.alpha(all_features(theory.d))[0])
        return largest_root(theory.L, theory.L * xi(alpha))
