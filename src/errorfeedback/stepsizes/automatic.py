"""The remaining-slope rule (ours): a step size that nobody has to choose. A heuristic, not a theorem.

After a move look at the share of the predicted slope that is still there at the new point,

    beta = <grad f(x) + s, x - x_last> / <g + s, x - x_last> = 1 + gamma (<g, x - x_last> - b) / ||x - x_last||^2,

with s in dR(x) from the proximal step (s = 0 without one) and b = (1/n) sum_i b_i, b_i = <grad f_i(x), x - x_last>: one
short number per client and round. Then gamma <- gamma exp(gain clip(beta - setpoint, -3, 1)): lengthened where much slope
is left, shortened where little is. One mode of EF21 is x' = -gamma g, g' = theta (h x - g); it is critically damped at
gamma h = theta/4, and there grad f/g = 1/2 whatever theta is; beta is that less the curvature part: 0.35 to 0.4.

Guard: the clients tell f_i in the first 8 rounds and in every tenth. If the loss is above the best one by more than a
tenth of all progress, everybody goes back to the best point (clients keep a copy of g_i), gamma is quartered, and one
round is spent standing there. The best point is what the run returns: it never ends above its start.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp, isfinite
from typing import ClassVar

from errorfeedback.core import LOSS_BITS, Ask
from errorfeedback.methods.base import Method
from errorfeedback.methods.dgd import DGD
from errorfeedback.methods.ef21 import EF21
from errorfeedback.stepsizes.base import Move, StepSize, Telemetry, Verdict
from errorfeedback.stepsizes.theory import Theory

EARLY, SPARSE = 8, 10
"""Losses are told until the first move that held, in the first EARLY rounds and in every SPARSE-th."""
COARSE, FINE, LONG = 16, 32, 100
"""Bits of a slope up to round LONG and after: near the optimum the b_i nearly cancel, and 4 digits drown their mean."""
LEAP = 1e4
"""The most that the first measured curvature may change gamma."""
MARGIN, CUT = 0.1, 4.0
"""Lost: above the best by that share of all progress; then gamma is cut by that factor."""
ROUNDING = 2.0 ** (12 - LOSS_BITS)
"""Losses closer than this share of themselves are the same on the wire."""


@dataclass(frozen=True)
class Guarded:
    """The rule's memory."""

    gamma: float
    t: int = 0
    first: float = float("nan")
    """The loss at the start."""
    best: float = float("nan")
    moved: bool = False
    verdict: Verdict = Verdict.GO


@dataclass(frozen=True)
class Automatic(StepSize):
    """`guess`: the first step size, 1/(a bound on L) by default; anything from 0.01/L to 100/L will do."""

    methods: ClassVar[tuple[type[Method], ...]] = (EF21, DGD)
    command_bits: ClassVar[int] = 2
    guess: float | None = None
    setpoint: float = 0.35
    gain: float = 0.5

    def __post_init__(self) -> None:
        if self.guess is not None and not (isfinite(self.guess) and self.guess > 0):
            raise ValueError(f"guess = {self.guess}; a step size must be finite and positive")
        if not 0 < self.setpoint < 1 or not 0 < self.gain < 1:
            raise ValueError(f"setpoint = {self.setpoint}, gain = {self.gain}; both must lie between 0 and 1")

    @property
    def tells_loss(self) -> bool:
        return True

    def notes(self, theory: Theory, method: Method) -> tuple[str, ...]:
        return (
            "gamma followed the slope that is left after each step: one short number per client and round, and f_i in the "
            f"first {EARLY} rounds and every {SPARSE}th, all counted; a heuristic with a way back, not a theorem",
        )

    def start(self, theory: Theory, method: Method) -> Guarded:
        bound = theory.support.max_over_features(theory.L_i) / theory.n  # on L, from what the clients know
        return Guarded(1.0 / bound if self.guess is None else self.guess)

    def ask(self, state: Guarded) -> Ask:
        return Ask(
            slope=COARSE if state.t <= LONG else FINE, loss=not state.moved or state.t <= EARLY or state.t % SPARSE == 0
        )

    def verdict(self, state: Guarded) -> Verdict:
        return state.verdict

    def next(self, state: Guarded, theory: Theory, method: Method, telemetry: Telemetry | None) -> tuple[float, Guarded]:
        assert telemetry is not None, "solve() asks for it"
        after = self._judged(state, telemetry.loss)
        if after.verdict is not Verdict.RESTORE:
            after = self._adapted(after, telemetry, state.best)
        return after.gamma, replace(after, t=state.t + 1)

    def _judged(self, state: Guarded, loss: float | None) -> Guarded:
        """Lost, better than ever, or neither."""
        if state.t == 0:
            assert loss is not None, "round 0 tells it"
            return replace(state, first=loss, best=loss, verdict=Verdict.KEEP)
        if state.verdict is Verdict.RESTORE:  # the standing round: keep what the clients have learned in it
            return replace(state, verdict=Verdict.KEEP)
        if loss is None:
            return replace(state, verdict=Verdict.GO)
        slack = ROUNDING * abs(state.best)
        if not loss <= state.best + MARGIN * (state.first - state.best) + slack:
            return replace(state, gamma=state.gamma / CUT, verdict=Verdict.RESTORE)
        if loss < state.best - slack:
            return replace(state, best=loss, verdict=Verdict.KEEP)
        return replace(state, verdict=Verdict.GO)

    def _adapted(self, state: Guarded, telemetry: Telemetry, last: float) -> Guarded:
        """gamma for the next step, from the last one; as it is where nothing moved."""
        move, slope = telemetry.move, telemetry.slope
        if move is None or not move.norm2 or slope is None:
            return state
        if not state.moved:
            return replace(state, gamma=self._first(state.gamma, move, slope, telemetry.loss, last), moved=True)
        beta = 1.0 + move.gamma * (move.predicted - slope) / move.norm2
        return replace(state, gamma=state.gamma * exp(self.gain * min(max(beta - self.setpoint, -3.0), 1.0)))

    def _first(self, gamma: float, move: Move, slope: float, loss: float | None, last: float) -> float:
        """2/h with the curvature h along the first move: f(x_last) = f(x) - b + (h/2)||x - x_last||^2."""
        assert loss is not None, "early rounds tell it"
        h = 2.0 * (last - loss + slope) / move.norm2
        return min(max(2.0 / h, gamma / LEAP), gamma * LEAP) if h > 0 else gamma
