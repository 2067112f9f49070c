"""EF21-BC's step size (of the order of Fatkhullin et al. 2021, Corollary 1; constants and c are ours):

    gamma = 2/(L + sqrt(L^2 + 4 M^2)),   M = L_plus sqrt(c/n) (xi(alpha) + xi(alpha_s)(1 + q)/(1 - q)),  q = sqrt(1 - alpha),

alpha_s being that of the server's compressor on R^d. With e = w - g, what the server has not told, and the weights of
`proof_of`,
    Psi = f(x) - f* + a sum_i G_i + b ||e||^2
falls: Psi+ <= Psi - (gamma/2)||grad f(x)||^2. A server that tells everything has xi(alpha_s) = 0, and gamma is EF21's.
Proof, and why no larger gamma will do for all contractive compressors: docs/theory.md, section 22.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt
from typing import ClassVar

from errorfeedback.compressors.base import Contractive
from errorfeedback.compressors.top_k import TopK
from errorfeedback.directions.base import Direction
from errorfeedback.downlinks.base import Downlink
from errorfeedback.downlinks.compressed import Compressed, all_features
from errorfeedback.methods.base import Method
from errorfeedback.methods.ef21 import EF21
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.stepsizes.proved import largest_root
from errorfeedback.theory.analysis import Theory, xi


@dataclass(frozen=True)
class TwoWayProof:
    """The weights of Psi."""

    gamma: float
    of_error: float
    """a, of sum_i G_i."""
    of_untold: float
    """b, of ||e||^2."""

    def bound(self, rounds: int, psi: float) -> float:
        """On the mean of ||grad f(x^t)||^2 over so many rounds from Psi^0 = psi."""
        return 2 * psi / (self.gamma * rounds)


@dataclass(frozen=True)
class RareTwoWay(Fixed):
    """For EF21 with `Compressed(compressor)`, the same compressor; `proof_of(...)` is what it promises.

    >>> import errorfeedback as ef
    >>> problem, top = ef.synthetic(n=20, d=60, m=3, c=4), ef.TopK(30)
    >>> run = ef.solve(problem, ef.EF21(ef.TopK(2)), ef.RareTwoWay(top), downlink=ef.Compressed(top), rounds=300, every=300)
    >>> bool(run.history["f"][-1] < run.history["f"][0])
    True
    """

    methods: ClassVar[tuple[type[Method], ...]] = ()  # none by itself: it is about a method with a downlink
    compressor: Contractive = field(default=TopK(1))

    def check(self, method: Method, direction: Direction) -> None:
        if not (isinstance(method, EF21) and direction.is_estimate and not method.unproved):
            raise ValueError(
                f"RareTwoWay is a rule for EF21 along its estimate, and has no theorem for {method} with {direction}; "
                "use ef.Constant(gamma) to choose a step size yourself"
            )

    def check_downlink(self, downlink: Downlink) -> None:
        if downlink != Compressed(self.compressor):
            raise ValueError(f"{self} has no theorem for the downlink {downlink}; use ef.Compressed({self.compressor})")

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        return self.proof_of(theory).gamma

    def proof_of(self, theory: Theory) -> TwoWayProof:
        """Psi for this problem and both compressors."""
        alpha = float(self.compressor.alpha(all_features(theory.d))[0])
        q, theta, of_server = sqrt(1 - theory.alpha), theory.theta, xi(alpha)
        up, down = theory.xi, of_server * (1 + q) / theta
        gamma = largest_root(theory.L, theory.L_plus * sqrt(theory.c / theory.n) * (up + down))
        if not down:
            return TwoWayProof(gamma, gamma * theory.c / (2 * theory.n**2 * theta), 0.0)
        share = up / (up + down)  # of the clients' error in that of the direction
        untold = 1 / ((1 - share) * (1 - sqrt(1 - alpha)))
        error = (1 / share + of_server**2 / (1 - share) * (1 + q) ** 2 / q) / theta if q else 0.0
        return TwoWayProof(gamma, gamma * theory.c / (2 * theory.n**2) * error, gamma / 2 * untold)

    def notes(self, theory: Theory, method: Method) -> tuple[str, ...]:
        return ("gamma is that of a theorem about both directions; RareTwoWay(compressor).proof_of says its bound",)
