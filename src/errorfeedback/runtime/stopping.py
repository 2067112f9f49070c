"""When to stop: rules that look at a run after every round, each with its reason.

The number of rounds is `solve`'s own. A rule object has the memory of one run: make a new one for every run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, isfinite

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


class Stop(ABC):
    """A reason to stop, in words, or nothing."""

    @abstractmethod
    def __call__(self, seen: Progress) -> str: ...

    @property
    def choice(self) -> tuple[Model, str] | None:
        """The point to return and what it is, where the rule knows a better one than the loss does."""
        return None

    def check(self, stepsize: StepSize) -> None:  # noqa: B027  (most rules fit every step size)
        """Raise where the step-size rule does not tell what this needs."""


@dataclass
class Budget(Stop):
    """At most that many bytes up per client, or seconds.

    >>> Budget(bytes=100)(Progress(7, 808.0, 0.1, None, None, None))
    'budget of 100 bytes up per client spent at round 7'
    """

    bytes: float = inf
    seconds: float = inf

    def __post_init__(self) -> None:
        for name in ("bytes", "seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} = {getattr(self, name)}; a budget must be above 0")

    def __call__(self, seen: Progress) -> str:
        if seen.bits >= 8 * self.bytes:
            return f"budget of {self.bytes:g} bytes up per client spent at round {seen.t}"
        if seen.seconds >= self.seconds:
            return f"budget of {self.seconds:g} seconds spent at round {seen.t}"
        return ""


@dataclass
class RelativeDecrease(Stop):
    """The best loss fell by less than `tolerance` of itself, `patience` times in a row, looked at every `gap` rounds."""

    tolerance: float
    patience: int = 3
    gap: int = 10
    _best: float = field(default=inf, init=False)
    _idle: int = field(default=0, init=False)
    _last: float = field(default=-inf, init=False)

    def __post_init__(self) -> None:
        _check(self.tolerance, self.patience)

    def check(self, stepsize: StepSize) -> None:
        if not stepsize.tells_loss:
            raise ValueError(
                f"RelativeDecrease needs the loss, which {type(stepsize).__name__} does not ask the clients for; "
                "use ef.Automatic() or another stopping rule"
            )

    def __call__(self, seen: Progress) -> str:
        if seen.loss is None or not isfinite(seen.loss) or seen.t < self._last + self.gap:
            return ""
        self._last = seen.t
        enough = not isfinite(self._best) or self._best - seen.loss > self.tolerance * abs(self._best)
        self._idle = 0 if enough else self._idle + 1
        self._best = min(self._best, seen.loss)
        return (
            f"loss fell by less than {self.tolerance:g} of itself at round {seen.t}" if self._idle >= self.patience else ""
        )


@dataclass
class GradientMapping(Stop):
    """The estimate ||x - x_last||/gamma was at most `tolerance`, `patience` times in a row."""

    tolerance: float
    patience: int = 5
    _below: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        _check(self.tolerance, self.patience)

    def __call__(self, seen: Progress) -> str:
        if seen.mapping is None:
            return ""
        self._below = self._below + 1 if seen.mapping <= self.tolerance else 0
        if self._below < self.patience:
            return ""
        return f"gradient mapping estimated at most {self.tolerance:g} at round {seen.t}"


@dataclass
class Validation(Stop):
    """The loss on held-out data, looked at every `every` rounds, did not improve `patience` times in a row.

    Whatever stops the run, it returns the point with the lowest of these losses.
    """

    loss: Callable[[Model], float]
    every: int = 10
    patience: int = 5
    best: float = field(default=inf, init=False)
    _idle: int = field(default=0, init=False)
    _x: Model | None = field(default=None, init=False, repr=False)
    _round: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        _check(0.0, self.patience)
        _check(0.0, self.every)

    @property
    def choice(self) -> tuple[Model, str] | None:
        if self._x is None:
            return None
        return self._x, f"the point of round {self._round}, with the lowest validation loss ({self.best:.6g})"

    def __call__(self, seen: Progress) -> str:
        if seen.t % self.every:
            return ""
        now = self.loss(seen.x)
        self._idle += 1
        if now < self.best:
            self._idle, self.best, self._x, self._round = 0, now, seen.x.copy(), seen.t
        return f"validation loss stopped falling at round {seen.t}" if self._idle >= self.patience else ""


def _check(tolerance: float, patience: int) -> None:
    if not (isfinite(tolerance) and tolerance >= 0):
        raise ValueError(f"tolerance = {tolerance}; it must be finite and not negative")
    if patience < 1:
        raise ValueError(f"{patience}; patience and every must be at least 1")
