"""The paper's adaptive heuristic (section 6.2): c^t in place of c.

    c^t = n ||g^t - grad f(x^t)||^2 / G^t,   L_plus^t = min(sqrt(c^t/n) L_max, L_tilde),
    gamma^t = 1/(L + L_plus^t sqrt(c^t/n) xi(alpha)).

As in the authors' code, round t uses c^{t-1}, and round 0 uses c = n. It is a heuristic: no theorem covers it. c^t needs
grad f(x^t), which a server does not have: this rule is for simulations.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from errorfeedback.methods.base import Method
from errorfeedback.methods.ef21 import EF21
from errorfeedback.stepsizes.base import StepSize, Telemetry
from errorfeedback.stepsizes.ef21_standard import ALPHAS
from errorfeedback.stepsizes.theory import Theory, xi


@dataclass(frozen=True)
class Adaptive(StepSize):
    """The c^t rule; `alpha` as in `RareFeatures`."""

    methods: ClassVar[tuple[type[Method], ...]] = (EF21,)
    telemetry: ClassVar[bool] = True
    note: ClassVar[str] = (
        "gamma used c^t, which needs the full gradient in every round: possible in simulation only, and its bits are not "
        "counted (G_i, one number per client and round, is)"
    )
    alpha: str = "K/|J_i|"

    def __post_init__(self) -> None:
        if self.alpha not in ALPHAS:
            raise ValueError(f"alpha = {self.alpha!r}; it must be one of {', '.join(ALPHAS)}")

    def start(self, theory: Theory, method: Method) -> float:
        return float(theory.n)

    def next(self, c_t: float, theory: Theory, method: Method, telemetry: Telemetry | None) -> tuple[float, float]:
        assert telemetry is not None, "solve() asks for it"
        G = float(telemetry.G_i.mean())
        return self.at(c_t, theory), theory.n * telemetry.error2 / G if G > 0 else 0.0

    def at(self, c_t: float, theory: Theory) -> float:
        """gamma for a given c^t."""
        root = sqrt(c_t / theory.n)
        return 1.0 / (theory.L + min(root * theory.L_max, theory.L_tilde) * root * xi(ALPHAS[self.alpha](theory)))
