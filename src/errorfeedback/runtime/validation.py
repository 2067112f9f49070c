"""Stopping by held-out data, which is noisy: when to stop, and which point to return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf, isfinite, nan

import numpy as np

from errorfeedback.core import Model, PerRow
from errorfeedback.runtime.stopping import Progress, Stop, check_count, check_loss, check_share
from errorfeedback.stepsizes.base import StepSize


@dataclass(frozen=True, eq=False)
class JudgedPoint:
    """A point and its held-out losses."""

    round: int
    x: Model = field(repr=False)
    losses: PerRow = field(repr=False)

    @property
    def loss(self) -> float:
        return float(np.mean(self.losses))


@dataclass(frozen=True, eq=False)
class Held:
    """The memory of `Validation`."""

    now: float = nan
    """The held-out loss of the round, where it was looked at."""
    best: JudgedPoint | None = None
    """Where the held-out loss was lowest."""
    chosen: JudgedPoint | None = None
    """The last point that was as good as that."""
    losses: tuple[tuple[int, float], ...] = ()
    """Rounds in which the training loss was told, and the lowest until then."""


@dataclass(frozen=True)
class Validation(Stop):
    """The loss on held-out data, looked at every `every` rounds, has stopped falling.

    A held-out loss is noisy, and EF21 swings before it settles. So the run stops where both hold: the lowest held-out loss
    is as many rounds old as it took to get there, and at least `patience` (patience grows with the round); and the training
    loss has flattened: in the last half of all rounds it fell by at most the share `flat` of all its fall. `flat=None` is
    for step sizes that do not tell the training loss: then the first alone decides.

    Whatever stops the run, it returns the last point that was as good as the best: `losses` gives the loss of every
    held-out row, and two points are as good as each other where the mean of the rows' differences is at most its standard
    error. Where `losses` gives one number, the lowest wins.
    """

    losses: Callable[[Model], PerRow | float]
    every: int = 1
    patience: int = 50
    flat: float | None = 0.01

    def __post_init__(self) -> None:
        check_count("every", self.every)
        check_count("patience", self.patience)
        if self.flat is not None:
            check_share("flat", self.flat)

    def check(self, stepsize: StepSize) -> None:
        if self.flat is not None:
            check_loss(self, stepsize, "use ef.Automatic(), or flat=None to stop without looking at it")

    def start(self) -> Held:
        return Held()

    def choice(self, state: Held) -> tuple[Model, str] | None:
        if state.chosen is None or state.best is None:
            return None
        if state.chosen is state.best or state.chosen.round == state.best.round:
            return (
                state.best.x,
                f"the point of round {state.best.round}, with the lowest validation loss ({state.best.loss:.6g})",
            )
        return state.chosen.x, (
            f"the point of round {state.chosen.round}, with a validation loss ({state.chosen.loss:.6g}) within the noise of "
            f"the lowest ({state.best.loss:.6g} at round {state.best.round})"
        )

    def columns(self, state: Held) -> dict[str, float]:
        return {"validation": state.now}

    def next(self, state: Held, seen: Progress) -> tuple[str, Held]:
        state = replace(state, losses=_appended(state.losses, seen))
        if seen.t % self.every:
            return "", replace(state, now=nan)
        here = JudgedPoint(seen.t, seen.x, np.atleast_1d(np.asarray(self.losses(seen.x), dtype=np.float64)))
        state = replace(state, now=here.loss)
        best = state.best
        if here.loss < (inf if best is None else best.loss):
            kept = replace(here, x=seen.x.copy())
            return "", replace(state, best=kept, chosen=kept)
        if best is None:  # no loss was a number yet
            return "", state
        if _as_good(here, best):
            state = replace(state, chosen=replace(here, x=seen.x.copy()))
        over = seen.t - best.round >= max(self.patience, best.round) and self._flat(state.losses, seen.t)
        return f"validation loss stopped falling at round {seen.t}" if over else "", state

    def _flat(self, losses: tuple[tuple[int, float], ...], t: int) -> bool:
        """Whether the training loss hardly fell in the last half of the rounds."""
        if self.flat is None or not losses:
            return self.flat is None
        first, lowest = losses[0][1], losses[-1][1]
        half = next(loss for round_, loss in reversed(losses) if round_ <= max(t / 2, losses[0][0]))
        return half - lowest <= self.flat * (first - lowest)


def _appended(losses: tuple[tuple[int, float], ...], seen: Progress) -> tuple[tuple[int, float], ...]:
    if seen.loss is None or not isfinite(seen.loss):
        return losses
    return *losses, (seen.t, min(seen.loss, losses[-1][1] if losses else inf))


def _as_good(here: JudgedPoint, best: JudgedPoint) -> bool:
    """Whether the mean difference of the rows' losses is at most its standard error."""
    more = here.losses - best.losses
    if len(more) < 2 or not np.isfinite(more).all():
        return False
    return bool(np.mean(more) <= np.std(more, ddof=1) / np.sqrt(len(more)))
