"""The paper's adaptive heuristic (section 6.2): c^t in place of c.

    c^t = n ||g^t - grad f(x^t)||^2 / G^t,   L_plus^t = min(sqrt(c^t/n) L_max, L_tilde),
    gamma^t = 1/(L + L_plus^t sqrt(c^t/n) xi(alpha)).

As in the authors' code, round t uses c^{t-1}, and round 0 uses c = n. It is a heuristic: no theorem covers it. c^t needs
grad f(x^t), which a server does not have. `sketch=s` does without (the paper's open question 1): every client sends
G_i and s
signed sums y_i = S u_i of its error u_i = g_i - grad f_i(x^t). The signs S (s rows, one column per feature) are drawn from
(seed, round, feature), so all clients and the server use the same S, sum_i y_i = S sum_i u_i, and
    ||sum_i y_i||^2 / (n^2 s)   has the mean ||g - grad f||^2 and a relative deviation of at most sqrt(2/s).
Lemma 5 bounds the estimate of c^t by c.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from errorfeedback.directions.base import Direction
from errorfeedback.methods.base import Method
from errorfeedback.methods.ef21 import EF21
from errorfeedback.probes.base import Probes
from errorfeedback.probes.errors import Errors
from errorfeedback.probes.full_gradient import FullGradient
from errorfeedback.probes.sketches import Sketches
from errorfeedback.stepsizes.base import StepSize, Telemetry
from errorfeedback.stepsizes.ef21_standard import ALPHAS
from errorfeedback.theory.analysis import Theory, xi


@dataclass(frozen=True)
class Adaptive(StepSize):
    """The c^t rule; `alpha` as in `RareFeatures`; `sketch`: 0 for the exact c^t of a simulation, or the length of the
    sketch."""

    methods: ClassVar[tuple[type[Method], ...]] = (EF21,)
    alpha: str = "K/|J_i|"
    sketch: int = 0

    def __post_init__(self) -> None:
        if self.alpha not in ALPHAS:
            raise ValueError(f"alpha = {self.alpha!r}; it must be one of {', '.join(ALPHAS)}")
        if isinstance(self.sketch, bool) or not isinstance(self.sketch, int) or self.sketch < 0:
            raise ValueError(f"sketch = {self.sketch!r}; it must be a whole number: 0 (no sketch) or its length")

    def check(self, method: Method, direction: Direction) -> None:
        super().check(method, direction)
        if not method.compressor.always:
            raise ValueError("Adaptive needs G_i from every client in every round; with Participating use ef.Best()")

    def ask(self, state: float) -> Probes:
        return Errors(), Sketches(self.sketch) if self.sketch else FullGradient()

    def notes(self, theory: Theory, method: Method) -> tuple[str, ...]:
        if self.sketch:
            return (
                f"gamma used c^t estimated from G_i and a sketch: {1 + self.sketch} numbers per client and round, counted",
            )
        return (
            "gamma used c^t, which needs the full gradient in every round: possible in simulation only, and its bits are "
            "not counted (G_i, one number per client and round, is); Adaptive(sketch=16) does without",
        )

    def start(self, theory: Theory, method: Method) -> float:
        return float(theory.n)

    def next(self, c_t: float, theory: Theory, method: Method, telemetry: Telemetry | None) -> tuple[float, float]:
        assert telemetry is not None, "solve() asks for it"
        G = float(telemetry.answers[Errors].mean())
        error2 = telemetry.answers[Sketches if self.sketch else FullGradient]
        seen = theory.n * error2 / G if G > 0 else 0.0
        return self.at(c_t, theory), min(seen, float(theory.c))  # Lemma 5; above it is rounding

    def at(self, c_t: float, theory: Theory) -> float:
        """gamma for a given c^t."""
        root = sqrt(c_t / theory.n)
        return 1.0 / (theory.L + min(root * theory.L_max, theory.L_tilde) * root * xi(ALPHAS[self.alpha](theory)))
