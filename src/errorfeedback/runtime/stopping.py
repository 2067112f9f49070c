"""When to stop: rules that look at a run after every round, each with its reason.

The number of rounds is `solve`'s own. A rule is a frozen configuration; its memory is a state that is handed in and out, so
that a checkpoint holds it and one rule serves many runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, nan
from typing import Any

from errorfeedback.core import Model
from errorfeedback.stepsizes.base import StepSize


@dataclass(frozen=True, eq=False)
class Progress:
    """What the server knows after a round."""

    t: int
    bits: float
    """Bits sent up so far, the mean over clients."""
    seconds: float
    loss: float | None
    """f(x) + R(x), in the rounds in which the rule asked the clients for it."""
    mapping: float | None
    """||x - x_last|| / gamma, an estimate of the gradient mapping's norm; None where x has not moved."""
    x: Model
    """The active entries of the model."""
    down_bits: float = 0.0
    """Bits received so far, the mean over clients."""
    gap: float | None = None
    """How far the loss is above its minimum, as the direction's model estimates it at an accepted point; None elsewhere."""
    gained: float | None = None
    """How far the loss has fallen, where a rule that searches knows."""
    gradient2: float = 0.0
    """||g||^2 of the estimate at the last accepted point, likewise."""
    surprise: float = 0.0
    """By how much losses that were told before count higher from now on (`Telemetry.surprise`)."""
    share: float = 1.0
    """Of the clients: who told here and at the last accepted point."""


@dataclass(frozen=True)
class Stop(ABC):
    """A reason to stop, in words, or nothing."""

    def start(self) -> Any:
        """The rule's memory before round 0."""
        return None

    @abstractmethod
    def next(self, state: Any, seen: Progress) -> tuple[str, Any]:
        """Why to stop after this round ("" to go on), and the memory for the next round."""

    def choice(self, state: Any) -> tuple[Model, str] | None:
        """The point to return and what it is, where the rule knows a better one than the loss does."""
        return None

    def columns(self, state: Any) -> dict[str, float]:
        """What the rule adds to the history's row of the round that it has just seen."""
        return {}

    def check(self, stepsize: StepSize) -> None:  # noqa: B027  (most rules fit every step size)
        """Raise where the step-size rule does not tell what this needs."""


@dataclass(frozen=True)
class Budget(Stop):
    """At most that many bytes up per client, or seconds.

    >>> Budget(bytes=100).next(None, Progress(7, 808.0, 0.1, None, None, None))[0]
    'budget of 100 bytes up per client spent at round 7'
    """

    bytes: float = inf
    """Up, of the mean client."""
    seconds: float = inf
    """Of the run's own clock, which stops while metrics are computed."""

    def __post_init__(self) -> None:
        for name in ("bytes", "seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} = {getattr(self, name)}; a budget must be above 0")

    def next(self, state: None, seen: Progress) -> tuple[str, None]:
        if seen.bits >= 8 * self.bytes:
            return f"budget of {self.bytes:g} bytes up per client spent at round {seen.t}", None
        if seen.seconds >= self.seconds:
            return f"budget of {self.seconds:g} seconds spent at round {seen.t}", None
        return "", None


FLATTER, LONGER = 100.0, 3
HELD_AGAINST = 8
"""Accepted points whose estimates are held against what the loss has done since."""
MOST = 0.9
"""The share of the clients that must have told for a round to be judged."""


@dataclass(frozen=True)
class Estimate:
    """The memory of `EstimatedGap`: the last estimate, how often it was small enough, the best loss, and how long ago."""

    gap: float = inf
    times: int = 0
    best: float = inf
    idle: int = 0
    steepest: float = 0.0
    """The largest ||g||^2."""
    much: bool = False
    """More than the tolerance was left, by the last estimate."""
    past: tuple[tuple[float, float], ...] = ()
    """(loss, g'Hg/2) at the last accepted points."""


def refuted(past: Sequence[tuple[float, float]], loss: float) -> float:
    """How many times too low earlier estimates were, at least: the loss has fallen by more since than they said was left.

    >>> refuted([(1.0, 0.25), (0.75, 0.0625)], 0.5)
    4.0
    """
    return max([1.0, *((before - loss) / gap for before, gap in past if gap > 0)])


STUCK = "no step lowers the loss any more"


@dataclass(frozen=True)
class EstimatedGap(Stop):
    """The estimate of what is left is at most `tolerance` of all progress; or no step has lowered the loss for `patience`
    rounds, so that its rounding is reached; for three times as many where much is left by the last estimate, as a step may
    have to be shortened ten thousand times.

    The estimate is g'Hg/2 at an accepted point, times how far too low it has been: where the loss has since fallen by more
    than it said was left at one of the last eight, the run has refuted it, and by that much at least. A model that has seen
    the steepest curvature only believes that little is left everywhere: so g'Hg/2 itself must be that small twice in a row,
    and ||g||^2 at most 100 `tolerance` of its largest.

    All progress is what the loss has fallen by and is still above its estimated minimum, or a hundredth of the loss itself
    where that is more: a run that starts near the minimum need not go on to the last digit. Rounds that more than a tenth of
    the clients miss say nothing about either.
    """

    tolerance: float
    patience: int = 12

    def __post_init__(self) -> None:
        check_share("tolerance", self.tolerance)

    def start(self) -> Estimate:
        return Estimate()

    def next(self, state: Estimate, seen: Progress) -> tuple[str, Estimate]:
        if seen.loss is None:
            return "", state
        if seen.surprise:
            past = tuple((loss + seen.surprise, gap) for loss, gap in state.past)
            state = replace(state, best=state.best + seen.surprise, past=past)
        lower, idle = seen.loss < state.best, state.idle + (seen.share >= MOST)
        state = replace(state, best=min(state.best, seen.loss), idle=0 if lower else idle)
        if seen.share < MOST:
            return "", state
        if state.idle >= self.patience * (LONGER if state.much else 1):
            return f"{STUCK}, at round {seen.t}", state
        if seen.gap is None or seen.gained is None:
            return "", state
        gap = seen.gap * refuted(state.past, seen.loss)
        progress = max(seen.gained + seen.gap, 0.01 * abs(seen.loss))
        steepest = max(state.steepest, seen.gradient2)
        small = seen.gap <= self.tolerance * progress and seen.gradient2 <= FLATTER * self.tolerance * steepest
        much, times = not gap <= self.tolerance * progress, state.times + 1 if small else 0
        past = (*state.past, (seen.loss, seen.gap))[-HELD_AGAINST:]
        state = replace(state, gap=gap, times=times, steepest=steepest, much=much, past=past)
        if state.times < 2 or much:
            return "", state
        share = gap / progress if progress else 0.0
        return f"an estimated {share:.1e} of all progress is left at round {seen.t}", state

    def columns(self, state: Estimate) -> dict[str, float]:
        return {"estimated_gap": state.gap if isfinite(state.gap) else nan}

    def check(self, stepsize: StepSize) -> None:
        if not stepsize.searches:
            raise ValueError(f"EstimatedGap needs a rule that searches, such as ef.Armijo(), and {stepsize} does not")


@dataclass(frozen=True)
class Decrease:
    """The memory of `RelativeDecrease`: the best loss, how often it hardly fell, and the round of the last look."""

    best: float = inf
    idle: int = 0
    last: float = -inf


@dataclass(frozen=True)
class RelativeDecrease(Stop):
    """The best loss fell by less than `tolerance` of itself, `patience` times in a row, judged at every `gap` rounds."""

    tolerance: float
    patience: int = 3
    gap: int = 10

    def __post_init__(self) -> None:
        check_share("tolerance", self.tolerance)
        check_count("patience", self.patience)
        check_count("gap", self.gap)

    def check(self, stepsize: StepSize) -> None:
        check_loss(self, stepsize, "use ef.Automatic() or another stopping rule")

    def start(self) -> Decrease:
        return Decrease()

    def next(self, state: Decrease, seen: Progress) -> tuple[str, Decrease]:
        state = replace(state, best=state.best + seen.surprise)
        if seen.loss is None or not isfinite(seen.loss) or seen.t < state.last + self.gap:
            return "", state
        enough = not isfinite(state.best) or state.best - seen.loss > self.tolerance * abs(state.best)
        idle = 0 if enough else state.idle + 1
        reason = f"loss fell by less than {self.tolerance:g} of itself at round {seen.t}" if idle >= self.patience else ""
        return reason, Decrease(min(state.best, seen.loss), idle, seen.t)


@dataclass(frozen=True)
class GradientMapping(Stop):
    """The estimate ||x - x_last||/gamma was at most `tolerance`, `patience` times in a row; the state counts them."""

    tolerance: float
    patience: int = 5

    def __post_init__(self) -> None:
        check_share("tolerance", self.tolerance)
        check_count("patience", self.patience)

    def start(self) -> int:
        return 0

    def next(self, state: int, seen: Progress) -> tuple[str, int]:
        if seen.mapping is None:
            return "", state
        below = state + 1 if seen.mapping <= self.tolerance else 0
        reason = f"gradient mapping estimated at most {self.tolerance:g} at round {seen.t}" if below >= self.patience else ""
        return reason, below


class Stops:
    """The stopping rules of one run, with their memory."""

    def __init__(self, rules: Sequence[Stop]) -> None:
        self.rules = tuple(rules)
        self.states = [rule.start() for rule in rules]

    def __bool__(self) -> bool:
        return bool(self.rules)

    def after(self, seen: Progress) -> str:
        """Why to stop after this round. Every rule sees every round."""
        judged = [rule.next(state, seen) for rule, state in zip(self.rules, self.states, strict=True)]
        self.states = [state for _, state in judged]
        return next((reason for reason, _ in judged if reason), "")

    @property
    def choice(self) -> tuple[Model, str] | None:
        """The point that a rule would return, and what it is."""
        chosen = (rule.choice(state) for rule, state in zip(self.rules, self.states, strict=True))
        return next((each for each in chosen if each is not None), None)

    @property
    def columns(self) -> dict[str, float]:
        """What the rules add to the history's row."""
        added: dict[str, float] = {}
        for rule, state in zip(self.rules, self.states, strict=True):
            added |= rule.columns(state)
        return added


def check_loss(rule: Stop, stepsize: StepSize, fix: str) -> None:
    """Raise where a rule needs the training loss and the step size does not tell it."""
    if not stepsize.tells_loss:
        raise ValueError(
            f"{type(rule).__name__} needs the loss, which {type(stepsize).__name__} does not ask the clients for; {fix}"
        )


def check_share(name: str, value: float) -> None:
    """Raise where a tolerance makes no sense."""
    if not (isfinite(value) and value >= 0):
        raise ValueError(f"{name} = {value}; it must be finite and not negative")


def check_count(name: str, value: int) -> None:
    """Raise where a number of rounds makes no sense."""
    if value < 1:
        raise ValueError(f"{name} = {value}; it must be at least 1")
