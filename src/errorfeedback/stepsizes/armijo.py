"""Armijo's rule on told losses (ours for compressed estimates): no step size to choose, for any direction of descent.

Every client tells f_i in every round. The step s from an accepted point x, with the estimate g there, is accepted where

    F(x + s) <= F(x) + 1e-4 Delta,    F = f + R,    Delta = <g, s>,  or <g, s> + R(x + s) - R(x) where g is without R,

and then x + s is where the next one begins. Otherwise it is undone on both sides (clients go back to x and to their memory
there), and the next try begins at x again: along what the direction has learned from the refused step, and at most half as
long; at most a tenth where F was infinite or had risen by 1000 times the promised fall, as it does on losses that grow
like exp. After three refusals in a row everybody stands at x for one round: g is asked for once more, and the direction
starts afresh. After a refusal no step is longer than four times the last accepted one, until one that is accepted is shorter
than that by itself: where a loss has kinks, a direction that led too far once does so again.

The first step, where the direction has no length of its own, is a quarter of Polyak's,
(F - lower bound) / (4 <g, direction>); from a start that is already better than another point, with 3% of that in place of
F - lower bound.

*F never rises at accepted points*: Delta < 0 for a direction of descent, and what is not accepted is undone. (A told loss
has 64 bits; steps within the rounding of their mean, 16 eps |F|, count as level.)

*Gradients go to zero* (docs/theory.md, section 13). Let F be bounded below with an L-Lipschitz gradient, direction = H g,
m <= H <= M, and ||g - grad F|| <= e at an accepted x. Where e <= m ||g|| / (4M), steps of a length gamma <= m / (L M^2) are
accepted. Accepted steps lower F by at least 1e-4 (m/M) ||g|| ||s||, so they go to zero, and with them the errors of EF21;
standing contracts these by sqrt(1 - alpha) while x stays, until a step is accepted. For few-bit pairs m and M are assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite, nan
from typing import ClassVar

import numpy as np

from errorfeedback.methods.base import Method
from errorfeedback.methods.dgd import DGD
from errorfeedback.methods.ef21 import EF21
from errorfeedback.probes.base import Probes
from errorfeedback.probes.losses import Losses
from errorfeedback.stepsizes.base import StepSize, Telemetry, Verdict
from errorfeedback.theory.analysis import Theory

SHARE = 1e-4
"""Of the predicted decrease that a step must keep (Armijo 1966; the usual constant)."""
PATIENCE = 3
"""Refusals in a row before everybody stands."""
POLYAK = 0.25
LEVEL = 16 * np.finfo(np.float64).eps
"""Losses that differ by less than that share of themselves are the same."""
FAR, CUT = 1e3, 0.1
"""A loss that has risen by that many times the promised fall is nowhere near: the next step is cut to that share."""
LEFT = 0.03
"""Of what a start is better by than another point: what it may still gain, to begin with."""
WIDER, NEARLY = 4.0, 0.9
"""After refusals: how much longer the next step may be than one that was accepted near the radius."""
GROWTH = 2.0
"""Of the step after one that was accepted, where the direction has no length of its own."""


@dataclass(frozen=True)
class LineSearch:
    """The rule's memory."""

    floor: float
    """A lower bound on f."""
    loss: float = nan
    """F at the last accepted point."""
    gamma: float = nan
    """The last step size."""
    refusals: int = 0
    """In a row."""
    radius: float = inf
    """The longest step that may be tried; finite since a refusal, until a step of the direction's own length is accepted."""
    refused: bool = False
    """A step from this point was."""
    verdict: Verdict = Verdict.GO


@dataclass(frozen=True)
class Armijo(StepSize):
    """`guess`: the first step size, in place of the one from Polyak's. `since`: F at a point that the
    start should be better than.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=40, m=5, c=4)
    >>> run = ef.solve(problem, ef.EF21(ef.Identity()), ef.Armijo(), rounds=50)
    >>> bool(run.history["f"][-1] < 0.05 * run.history["f"][0])
    True
    """

    methods: ClassVar[tuple[type[Method], ...]] = (EF21, DGD)
    any_direction: ClassVar[bool] = True
    commands: ClassVar[bool] = True
    searches: ClassVar[bool] = True
    guess: float | None = None
    since: float | None = None

    def __post_init__(self) -> None:
        if self.guess is not None and not (isfinite(self.guess) and self.guess > 0):
            raise ValueError(f"guess = {self.guess}; a step size must be finite and positive")
        if self.since is not None and not isfinite(self.since):
            raise ValueError(f"since = {self.since}; a loss must be finite")

    @property
    def tells_loss(self) -> bool:
        return True

    def notes(self, theory: Theory, method: Method) -> tuple[str, ...]:
        return (
            "steps were accepted by the losses that the clients told in every round (counted), and undone where they did "
            "not fall enough: f never rises at accepted points",
        )

    def start(self, theory: Theory, method: Method) -> LineSearch:
        return LineSearch(theory.problem.lower_bound)

    def ask(self, state: LineSearch) -> Probes:
        return (Losses(),)

    def verdict(self, state: LineSearch) -> Verdict:
        return state.verdict

    def accepts(self, state: LineSearch, telemetry: Telemetry) -> bool:
        if telemetry.move is None:  # nobody has moved: round 0, or everybody stands
            return True
        loss = telemetry.loss
        assert loss is not None, "every round tells it"
        before = state.loss + telemetry.surprise
        return bool(loss <= before + SHARE * min(telemetry.move.slope, 0.0) + LEVEL * abs(state.loss))

    def next(
        self, state: LineSearch, theory: Theory, method: Method, telemetry: Telemetry | None
    ) -> tuple[float, LineSearch]:
        assert telemetry is not None, "solve() asks for it"
        assert telemetry.loss is not None, "every round tells it"
        if telemetry.accepted:
            radius, stands = self._wider(state, telemetry), telemetry.move is None
            gamma = self._first(state, telemetry, radius) if telemetry.descent > 0 else state.gamma  # else: nowhere to go
            after = LineSearch(state.floor, telemetry.loss, gamma, 0, radius, state.refused and stands, Verdict.KEEP)
            return (gamma if isfinite(gamma) else 1.0), after
        radius = self._narrower(state, telemetry)
        after = replace(state, refusals=state.refusals + 1, radius=radius, refused=True, verdict=Verdict.RETRY)
        if after.refusals < PATIENCE:
            gamma = self._within(telemetry, radius, state.gamma if telemetry.length is None else telemetry.length)
        else:
            gamma, after = state.gamma / 4, replace(after, refusals=0, verdict=Verdict.RESTORE)
        return gamma, replace(after, gamma=gamma)

    def _narrower(self, state: LineSearch, telemetry: Telemetry) -> float:
        """The longest step after one that was refused."""
        assert telemetry.move is not None, "who stands is not refused"
        assert telemetry.loss is not None, "every round tells it"
        far = not telemetry.loss - (state.loss + telemetry.surprise) <= FAR * abs(telemetry.move.slope)
        length = (CUT if far else 0.5) * telemetry.move.norm2**0.5
        return min(state.radius, length) if length > 0 else state.radius

    def _wider(self, state: LineSearch, telemetry: Telemetry) -> float:
        """The longest step after one that was accepted."""
        if telemetry.move is None:  # everybody stood
            return state.radius
        length = telemetry.move.norm2**0.5
        if not length:  # a step that was rounded to nothing
            return state.radius
        return WIDER * length if state.refused or length >= NEARLY * state.radius else inf

    def _first(self, state: LineSearch, telemetry: Telemetry, radius: float) -> float:
        """From an accepted point."""
        if telemetry.length is not None:
            return self._within(telemetry, radius, telemetry.length)
        if isfinite(state.gamma):  # a step has been: longer after it was accepted, shorter where everybody stood
            return self._within(telemetry, radius, state.gamma * (GROWTH if telemetry.move is not None else 1.0))
        if self.guess is not None:
            return self.guess
        above = telemetry.loss - state.floor if telemetry.loss is not None else inf
        if self.since is not None and telemetry.loss is not None and telemetry.loss < self.since:
            above = min(above, LEFT * (self.since - telemetry.loss))
        return POLYAK * above / telemetry.descent if isfinite(above) else 1.0 / telemetry.direction2**0.5

    def _within(self, telemetry: Telemetry, radius: float, gamma: float) -> float:
        """At most as long as the radius."""
        return float(min(gamma, radius / telemetry.direction2**0.5)) if telemetry.direction2 > 0 else gamma
