"""The remaining-slope rule (ours): a step size that nobody has to choose. A heuristic, not a theorem.

After a move look at the share of the predicted slope that is still there at the new point,

    beta = <grad f(x) + s, x - x_last> / <g + s, x - x_last> = 1 + gamma (<g, x - x_last> - b) / ||x - x_last||^2,

with s in dR(x) from the proximal step (s = 0 without one) and b = <grad f(x), x - x_last>. A client tells one short number
per round, e_i = <grad f_i(x) - g_i, x - x_last>; the server adds <g, x - x_last>, which it knows, to their mean. Then
gamma <- gamma exp(gain clip(beta - s_t, -3, 1)): lengthened where much slope is left, shortened where little is. One mode of
EF21 is x' = -gamma g, g' = theta (h x - g); it is critically damped at gamma h = theta/4, and there grad f/g = 1/2 whatever
theta is; beta is that less the curvature part. Before that modes swing and still fall, and longer steps are faster: so the
set-point s_t rises from 0.1 to 0.45 within some 60 rounds.

Start: a quarter of Polyak's step, (f(x) - lower bound of f) / (4 ||g||^2), and at most 64 times the inverse of
max_j (1/n) sum_{i in I_j} L_i >= L. For this every client tells its own smoothness L_i once, in 14 bits, before round 0;
where nothing bounds the L_i, Polyak's share alone decides, and without a lower bound on f the first step has length 1.

Guard: the clients tell f_i in the first 6 rounds and in every tenth. If the loss is above the best one by more than a
tenth of all progress, everybody goes back to the best point (clients keep a copy of g_i), gamma is quartered, and one
round is spent standing there. The best point is what the run returns: it never ends above its start. Where the last
round was not the best one told, the end takes one exchange more: f_i at the last point and at the best one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, inf, isfinite
from typing import ClassVar

import numpy as np

from errorfeedback.core import VALUE_BITS, PerClient
from errorfeedback.methods.base import Method
from errorfeedback.methods.dgd import DGD
from errorfeedback.methods.ef21 import EF21
from errorfeedback.probes.base import Probes
from errorfeedback.probes.losses import Losses
from errorfeedback.probes.slopes import Slopes
from errorfeedback.problems.base import Problem, is_bounded
from errorfeedback.stepsizes.base import StepSize, Telemetry, Verdict
from errorfeedback.theory.analysis import Theory

EARLY, SPARSE = 6, 10
"""Losses are told until the first move that held, in the first EARLY rounds and in every SPARSE-th."""
ROUGH_BITS = 14
"""Bits of an e_i, which is as small as the step, and of an L_i: 2 digits are enough at every scale."""
LOSS = {EARLY: 32, 100: 40}
"""Bits of a loss up to these rounds; all 64 after: the guard needs few digits, the end of a long run needs them all."""
POLYAK, LONGEST = 0.25, 64.0
"""The first step: that share of Polyak's, and at most that many times the inverse bound on L."""
EAGER, SETTLE = 0.1, 60.0
"""The first set-point, and the rounds within which it comes near the last one."""
MARGIN, CUT = 0.1, 4.0
"""Lost: above the best by that share of all progress; then gamma is cut by that factor."""
ROUNDING = 12
"""Losses of b bits that are closer than 2^(ROUNDING - b) of themselves are the same on the wire."""


def _loss_bits(t: int) -> int:
    return next((bits for last, bits in LOSS.items() if t <= last), VALUE_BITS)


@lru_cache
def _probes(slope: int, loss: int) -> Probes:
    return (Slopes(slope), Losses(loss)) if loss else (Slopes(slope),)


def bound_of_clients(theory: Theory) -> float:
    """max_j (1/n) sum_{i in I_j} L_i >= L, from what every client tells: its L_i, rounded up to ROUGH_BITS bits."""
    digits, exponent = np.frexp(theory.L_i)
    steps = 2.0 ** (ROUGH_BITS - 11)  # sign and exponent take 12 bits, and the leading digit none
    rounded = np.ldexp(np.ceil(steps * digits) / steps, exponent)
    return theory.support.max_over_features(PerClient(rounded)) / theory.n


@dataclass(frozen=True)
class Guarded:
    """The rule's memory."""

    gamma: float
    slope: int
    """Bits of a slope."""
    floor: float
    """A lower bound on f."""
    t: int = 0
    first: float = float("nan")
    """The loss at the start."""
    best: float = float("nan")
    slack: float = 0.0
    """What rounding may have done to the best loss, as a share of it."""
    moved: bool = False
    verdict: Verdict = Verdict.GO


@dataclass(frozen=True)
class Automatic(StepSize):
    """`guess`: the first step size, in place of the one from Polyak's; anything from 0.01/L to 100/L will do."""

    methods: ClassVar[tuple[type[Method], ...]] = (EF21, DGD)
    commands: ClassVar[bool] = True
    guess: float | None = None
    setpoint: float = 0.45
    """The share of the slope that is to be left after a step, once the first rounds are over."""
    gain: float = 0.4
    """How fast gamma follows what is left."""

    def __post_init__(self) -> None:
        if self.guess is not None and not (isfinite(self.guess) and self.guess > 0):
            raise ValueError(f"guess = {self.guess}; a step size must be finite and positive")
        if not 0 < self.setpoint < 1 or not 0 < self.gain < 1:
            raise ValueError(f"setpoint = {self.setpoint}, gain = {self.gain}; both must lie between 0 and 1")

    @property
    def tells_loss(self) -> bool:
        return True

    def notes(self, theory: Theory, method: Method) -> tuple[str, ...]:
        first = ", and L_i once for the first guess" if self.setup_bits(theory.problem) else ""
        return (
            "gamma followed the slope that is left after each step: one short number per client and round, f_i in the first "
            f"{EARLY} rounds, in every {SPARSE}th and at the end{first}, all counted; a heuristic with a way back, not a "
            "theorem",
        )

    def setup_bits(self, problem: Problem) -> int:
        return ROUGH_BITS if self.guess is None and is_bounded(problem) else 0

    def start(self, theory: Theory, method: Method) -> Guarded:
        longest = LONGEST / bound_of_clients(theory) if self.setup_bits(theory.problem) else inf
        gamma = longest if self.guess is None else self.guess
        return Guarded(gamma, ROUGH_BITS if method.error_feedback else VALUE_BITS, theory.problem.lower_bound)

    def ask(self, state: Guarded) -> Probes:
        asks = not state.moved or state.t <= EARLY or state.t % SPARSE == 0
        return _probes(state.slope, _loss_bits(state.t) if asks else 0)

    def verdict(self, state: Guarded) -> Verdict:
        return state.verdict

    def next(self, state: Guarded, theory: Theory, method: Method, telemetry: Telemetry | None) -> tuple[float, Guarded]:
        assert telemetry is not None, "solve() asks for it"
        after = self._judged(state, telemetry.loss, telemetry.surprise)
        if after.verdict is not Verdict.RESTORE:
            after = self._adapted(after, telemetry)
        return (after.gamma if isfinite(after.gamma) else 1.0), replace(after, t=state.t + 1)  # infinite: nowhere to go yet

    def _judged(self, state: Guarded, loss: float | None, surprise: float) -> Guarded:
        """Lost, better than ever, or neither; the best loss, and the first, count as that much higher."""
        if state.t == 0:
            assert loss is not None, "round 0 tells it"
            return replace(state, first=loss, best=loss, slack=2.0 ** (ROUNDING - _loss_bits(0)), verdict=Verdict.KEEP)
        if state.verdict is Verdict.RESTORE:  # the standing round: keep what the clients have learned in it
            return replace(state, first=state.first + surprise, best=state.best + surprise, verdict=Verdict.KEEP)
        if loss is None:
            return replace(state, verdict=Verdict.GO)
        rounding = 2.0 ** (ROUNDING - _loss_bits(state.t))
        slack, best = max(state.slack, rounding) * abs(state.best), state.best + surprise
        if not loss <= best + MARGIN * (state.first - state.best) + slack:
            return replace(state, gamma=state.gamma / CUT, verdict=Verdict.RESTORE)
        if loss < best - slack:
            return replace(state, first=state.first + surprise, best=loss, slack=rounding, verdict=Verdict.KEEP)
        return replace(state, verdict=Verdict.GO)

    def _adapted(self, state: Guarded, telemetry: Telemetry) -> Guarded:
        """gamma for the next step, from the last one; where nothing has moved yet, at most what Polyak's step allows."""
        move, slope = telemetry.move, telemetry.answers.get(Slopes)
        if move is None or not move.norm2 or slope is None:
            return state if state.moved or self.guess is not None else self._shortened(state, telemetry)
        beta = 1.0 + move.gamma * (move.predicted - slope) / move.norm2
        target = self.setpoint - (self.setpoint - EAGER) * exp(-state.t / SETTLE)
        gamma = state.gamma * exp(self.gain * min(max(beta - target, -3.0), 1.0))
        return replace(state, gamma=gamma, moved=True)

    def _shortened(self, state: Guarded, telemetry: Telemetry) -> Guarded:
        """The first step; nothing is known where g = 0."""
        assert telemetry.loss is not None, "rounds before the first move tell it"
        if not telemetry.direction2:
            return state
        polyak = POLYAK * (telemetry.loss - state.floor) / telemetry.direction2
        first = min(state.gamma, polyak)
        return replace(state, gamma=first if isfinite(first) else telemetry.direction2**-0.5)
