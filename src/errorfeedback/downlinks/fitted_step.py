"""Everybody takes the rounded step, as with `RoundedStep`, in as few bits as cost little of what the step promises.

A step s is made for the model <g, s> + s'Bs/2 of the loss, B from the direction (`Direction.quadratic`), and is (near) its
minimum. Rounded to s + e it promises e'Be/2 less, as the model has no slope at its minimum. So the coarsest coding is taken
with

    e' B e <= share * s' B s,     share = 1/10,

which gives away at most that share of the promise, and, for a shorter step -gamma B^-1 g, at most sqrt(share) of its slope
<g, s> (docs/theory.md, section 14); where the direction has no model, B = I. Steps that point along valleys of the loss need
more bits than others, as their error has a part across. The first byte of a frame says which coding it is.

Where the penalty has kinks, sum_j l1_j |x_j|, the model q has that part too, and s + e must keep its share of the fall,

    q(s + e) <= (1 - share) q(s),    q(s) = <g, s> + s'Bs/2 + sum_j l1_j (|x_j + s_j| - |x_j|),

which is the same where nothing has a kink and s is the minimum. And steps must be able to end at 0: with `zeros`, where the
told step is what -x_j itself would be told as, in the same coding and unit, both sides take -x_j. So a wanted 0 is always
reached exactly, and no code or bit is spent on it (docs/theory.md, section 30).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from errorfeedback.core import Floats, Model
from errorfeedback.downlinks.base import Answers, Broadcast, Downlink, Step, whole
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.sparsity.support import Support
from errorfeedback.sums import Quadratic, Vector, dot, squares
from errorfeedback.wire.codebook import MENU, Codebook
from errorfeedback.wire.coding import Coding
from errorfeedback.wire.message import KnownLayout

ALL = slice(None)
AT_ONCE = 4
"""Codings that are tried at once: going through what the model is made of takes as long for one as for a few."""


@dataclass(frozen=True)
class FittedStep(Downlink):
    """From `least` bits a value on (4 to 24); `share` of its promise is what a step may lose; `zeros`: steps can end at 0.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=20, d=60, m=3, c=4)
    >>> run = ef.solve(problem, ef.EF21(ef.PowersOfTwo(4)), ef.Armijo(), direction=ef.LBFGS(), rounds=60,
    ...                downlink=ef.FittedStep())
    >>> float(run.history["downlink_bits"][-1] / 60 / problem.support.size) < 12  # bits a value, all included
    True
    """

    share: float = 0.1
    least: int = 4
    zeros: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.share < 1:
            raise ValueError(f"share = {self.share}; it must be between 0 and 1")
        if isinstance(self.least, bool) or not isinstance(self.least, int) or not 1 <= self.least <= MENU[-1].each:
            raise ValueError(f"least = {self.least!r}; it must be a whole number of bits from 1 to {MENU[-1].each}")

    @property
    def codings(self) -> tuple[Coding, ...]:
        return self._menu

    @property
    def _menu(self) -> tuple[Codebook, ...]:
        return tuple(coding for coding in MENU if coding.each >= self.least)

    def send(self, state: None, x: Model, step: Step) -> tuple[Broadcast, None]:
        wanted = step.vector(x)
        coding = self._coarsest(wanted, x, *_account(step, wanted, x, self.share))
        values, units = coding.rounded(wanted, np.array([len(x)]))
        broadcast = Broadcast(values, coding=coding, unit=float(units[0]))
        step.taken = Model(self._move(x, broadcast, ALL))
        return broadcast, None

    def _move(self, x: Model, broadcast: Broadcast, where: Any) -> Floats:
        """Go where the step leads, in place; how x moves."""
        values, coding = broadcast.values[where], broadcast.coding
        if self.zeros and isinstance(coding, Codebook):
            values = coding.landing(values, x[where], broadcast.unit)
        x[where] += values
        return values

    def _coarsest(self, wanted: Model, x: Model, costs_of: Callable[[Sequence[Vector]], Floats], allowed: float) -> Codebook:
        """The coarsest coding that is allowed; the finest where none is."""
        codings, largest = self._menu, max(float(wanted.max()), -float(wanted.min()))
        for k in range(0, len(codings), AT_ONCE):
            some = codings[k : k + AT_ONCE]
            costs = costs_of([Lost(wanted, x if self.zeros else None, largest, coding) for coding in some])
            for coding, cost in zip(some, costs, strict=True):
                if not cost > allowed:
                    return coding
        return codings[-1]

    def receive(self, state: None, x: Model, broadcast: Broadcast) -> None:
        self._move(x, broadcast, broadcast.features)

    def known(self, support: Support, answers: Answers, coding: Coding) -> KnownLayout:
        return KnownLayout(whole(support, coding), None)

    @classmethod
    def examples(cls) -> Sequence[FittedStep]:
        return [cls(), cls(least=8), cls(zeros=True)]


def _account(step: Step, wanted: Model, x: Model, share: float) -> tuple[Callable[[Sequence[Vector]], Floats], float]:
    """What errors of a step cost, and what they may."""
    model = step.quadratic()
    if model is None:
        return squares, share * dot(wanted, wanted)
    if step.rough is None:
        return model.forms, share * (step.gamma**2 * model.along(step.direction))
    kinked = Kinked(model, step.rough, x)
    fall = -float(kinked.changes([wanted])[0])
    return lambda lost: kinked.changes([wanted + e[:] for e in lost]) + fall, share * fall


@dataclass(frozen=True, eq=False)
class Kinked:
    """The model with the part of the penalty that has kinks."""

    model: Quadratic
    rough: ElasticNet
    x: Model

    def changes(self, steps: Sequence[Floats]) -> Floats:
        """q(s) of every step s."""
        assert self.model.g is not None, "the model of a direction that knows kinks has a slope"
        g = Model(self.model.g)
        return np.array([self.rough.rise(self.x, Model(s), g) for s in steps]) + 0.5 * self.model.forms(steps)


@dataclass(frozen=True, eq=False)
class Lost:
    """What a step loses in a coding; its pieces are made where they are asked for."""

    step: Model
    x: Model | None
    """Where it begins, if it can end at 0."""
    largest: float
    coding: Codebook

    def __len__(self) -> int:
        return len(self.step)

    def __getitem__(self, piece: slice) -> Floats:
        lost = self.coding.near(self.step[piece], self.largest)
        if self.x is not None:
            lost = self.coding.landing(lost, self.x[piece], self.coding.unit(self.largest, lost.dtype))
        lost -= self.step[piece]
        return lost
