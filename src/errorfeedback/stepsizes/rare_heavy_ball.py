"""EF21-HB's step size (of the order of Fatkhullin et al. 2021, Corollary 1; constants and c are ours):

    gamma = (1 - eta) 2/(l + sqrt(l^2 + 4 M^2)),   l = L (1 + eta)/(1 - eta),   M = L_plus sqrt(c/n) xi(alpha).

With the long step b = gamma/(1 - eta), the last direction v and z = x - b eta v, which moves by -b g in a round,
    Psi = f(z) - f* + (b c/(2 n^2 theta)) sum_i G_i + K ||v||^2,   K = (b^3/2)(L eta/b + (1 - eta) eta M^2),
falls: Psi+ <= Psi - (b/2)||grad f(x)||^2. At eta = 0 gamma is that of EF21. Proof, and why no larger gamma will do:
docs/theory.md, section 19.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from errorfeedback.directions.base import Direction
from errorfeedback.directions.heavy_ball import HeavyBall
from errorfeedback.methods.base import Method
from errorfeedback.methods.ef21 import EF21
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.stepsizes.proved import largest_root
from errorfeedback.theory.analysis import Theory


@dataclass(frozen=True)
class HeavyBallProof:
    """The weights of Psi."""

    gamma: float
    long: float
    """b."""
    of_error: float
    """Of sum_i G_i."""
    of_direction: float
    """K."""

    def bound(self, rounds: int, psi: float) -> float:
        """On the mean of ||grad f(x^t)||^2 over so many rounds from Psi^0 = psi."""
        return 2 * psi / (self.long * rounds)


@dataclass(frozen=True)
class RareHeavyBall(Fixed):
    """For EF21 with `HeavyBall(eta)`, the same eta; `proof_of(...)` is what it promises."""

    methods: ClassVar[tuple[type[Method], ...]] = ()  # none by itself: it is about a method with a direction
    eta: float = 0.9

    def __post_init__(self) -> None:
        HeavyBall(self.eta)  # which says what is wrong with it

    def check(self, method: Method, direction: Direction) -> None:
        if not (isinstance(method, EF21) and direction == HeavyBall(self.eta) and not method.unproved):
            raise ValueError(
                f"RareHeavyBall({self.eta}) is a rule for EF21 with ef.HeavyBall({self.eta}), and has no theorem for "
                f"{method} with {direction}; use ef.Constant(gamma) to choose a step size yourself"
            )

    def gamma(self, theory: Theory, method: Method | None = None) -> float:
        return self.proof_of(theory).gamma

    def proof_of(self, theory: Theory) -> HeavyBallProof:
        """Psi for this problem and compressor."""
        eta, M = self.eta, theory.L_plus * sqrt(theory.c / theory.n) * theory.xi
        b = largest_root(theory.L * (1 + eta) / (1 - eta), M)
        of_error = b * theory.c / (2 * theory.n**2 * theory.theta)
        K = b**3 / 2 * eta * (theory.L / b + (1 - eta) * M**2)
        return HeavyBallProof((1 - eta) * b, b, of_error, K)

    def notes(self, theory: Theory, method: Method) -> tuple[str, ...]:
        return ("gamma is that of a theorem about x and the last direction; RareHeavyBall(eta).proof_of says its bound",)
