"""How the server's step reaches the clients. Both sides go the same way: clients do with a message what the server does.

A message down is a vector of R^d of which some features are told; client i gets those on J_i. It is framed, checked and
counted as what goes up (`wire`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import VALUE_BITS, Floats, Integers, Model
from errorfeedback.methods.base import Method
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.sparsity.support import Support, descend
from errorfeedback.sums import Quadratic
from errorfeedback.wire.coding import FULL, Coding
from errorfeedback.wire.frames import Frames, bits_per_index
from errorfeedback.wire.message import KnownLayout, Message

Answers = NDArray[np.bool_] | None
"""Which clients take part; None: all."""


@dataclass(slots=True, eq=False)
class Step:
    """Where the server wants to go: prox_{gamma R}(x - gamma direction).

    >>> import errorfeedback as ef
    >>> step = ef.Step(np.array([1.0, 2.0]), gamma=0.5, prox=None, scratch=np.empty(2), asked=True)
    >>> x = np.ones(2)
    >>> told, memory = ef.Whole().send(None, x, step)
    >>> told.values.tolist(), step.taken.tolist()
    ([0.5, 0.0], [-0.5, -1.0])
    """

    direction: Model
    """What the server made of the estimate."""
    gamma: float
    """How far to go along it."""
    prox: ElasticNet | None
    """R, where there is a penalty."""
    scratch: Model
    """(d,): room for one vector."""
    asked: bool
    """Somebody wants to know the step that was taken."""
    quadratic: Callable[[], Quadratic | None] = lambda: None
    """What is believed of the curvature where the step begins, where there is a model."""
    rough: ElasticNet | None = None
    """The part of R that has kinks, where the direction is made for it and the rest is in its gradient."""
    taken: Model | None = None
    """How x moved; a downlink fills it in."""
    _nowhere: Model = field(init=False, repr=False)
    _everything: Broadcast | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self._nowhere = Model(self.scratch[:0])

    def next(self, direction: Model, gamma: float, asked: bool) -> Step:
        """The step of the next round."""
        self.direction, self.gamma, self.asked, self.taken = direction, gamma, asked, None
        return self

    def take(self, x: Model) -> Broadcast:
        """Go there, all the way, in place; all of x, for who is to be told."""
        if self.prox is None:
            descend(x, self.direction, self.gamma, self.scratch if self.asked else self._nowhere)
        else:
            self.scratch[:] = x
            x -= self.gamma * self.direction
            self.prox.step(x, self.gamma)
            np.subtract(x, self.scratch, out=self.scratch)
        self.taken = self.scratch
        if self._everything is None or self._everything.values is not x:
            self._everything = Broadcast(x)
        return self._everything

    def vector(self, x: Model) -> Model:
        """The step that is wanted from x."""
        np.multiply(self.direction, -self.gamma, out=self.scratch)
        if self.prox is not None:
            self.scratch += x
            self.prox.step(self.scratch, self.gamma)
            self.scratch -= x
        return self.scratch


@dataclass(slots=True, eq=False)
class Broadcast:
    """What the server tells: values[features] (None: all of them), and the same few numbers to everybody."""

    values: Floats
    """(d,)"""
    features: Integers | None = None
    """The features that are told; None: all."""
    numbers: tuple[float, ...] = ()
    """What everybody hears beside values."""
    coding: Coding = FULL
    """How the values travel."""
    unit: float = 0.0
    """What all of them are counted in, where the coding has units."""

    def on(self, support: Support, answers: Answers = None) -> Message:
        """What each client of a shard gets: the told features that it owns, or all of its own where that is shorter."""
        frames = self.frames(support, answers)
        units = np.full(int(frames.units.sum()), self.unit)
        if self.features is None and answers is None:
            return Message(support, None, support.gather(Model(self.values)), frames, units)
        counts, included = self._counts(support, answers)
        chosen = included | np.repeat(counts == support.sizes, support.sizes)
        if answers is not None:
            chosen &= np.repeat(answers, support.sizes)
        positions = np.flatnonzero(chosen)
        return Message(support, positions, self.values[support.indices[positions]], frames, units)

    def frames(self, support: Support, answers: Answers = None) -> Frames:
        """What that takes."""
        if self.features is None and answers is None:
            return whole(support, self.coding)
        counts, _ = self._counts(support, answers)
        index = counts * bits_per_index(support.sizes) * (counts < support.sizes)
        return Frames(counts, index, self.coding, announced=self.features is None)

    def _counts(self, support: Support, answers: Answers) -> tuple[Integers, NDArray[np.bool_]]:
        """How many values every client gets, and the positions that are told."""
        if self.features is None:
            included = np.ones(support.size, dtype=bool)
            counts = support.sizes
        else:
            mask = np.zeros(support.d, dtype=bool)
            mask[self.features] = True
            included = mask[support.indices]
            counts = np.add.reduceat(included, support.indptr[:-1], dtype=np.int64)
            value = self.coding.width(VALUE_BITS)
            shorter = counts * (value + bits_per_index(support.sizes)) < support.sizes * value
            counts = np.where(shorter, counts, support.sizes)
        return (counts if answers is None else counts * answers), included


def first_told(x: Model, codings: Sequence[Coding], support: Support) -> Broadcast | None:
    """The first x, to clients that start from zero: what is not zero of it, or all as a step of few bits, where that is all
    of it and shorter."""
    if not x.any():
        return None
    ways = [Broadcast(x, np.flatnonzero(x))]
    for coding in codings:
        values, units = coding.rounded(x, np.array([len(x)]))
        if coding is not FULL and np.array_equal(values, x):
            ways.append(Broadcast(x, coding=coding, unit=float(units[0]) if len(units) else 0.0))
    return min(ways, key=lambda way: way.frames(support).cost(0, 8 * x.itemsize).bits)


def step_bits(broadcast: Broadcast | None) -> int:
    """Bits of a value of the step that is told; 0 where nobody moves."""
    return 0 if broadcast is None else broadcast.coding.width(VALUE_BITS)


def whole(support: Support, coding: Coding = FULL) -> Frames:
    """A value for each feature that a client owns."""
    return Frames(support.sizes, np.zeros(support.n, dtype=np.int64), coding)


def heard(message: Message, numbers: tuple[float, ...], coding: Coding = FULL) -> Broadcast:
    """What the clients of a shard were told, as a vector of R^d that is right where they look."""
    support = message.support
    features = support.indices if message.positions is None else support.indices[message.positions]
    values = np.zeros(support.d, dtype=message.values.dtype)
    values[features] = message.values
    return Broadcast(values, features, numbers, coding, float(message.units[0]) if len(message.units) else 0.0)


@dataclass(frozen=True)
class Downlink(ABC):
    """Memory is a state that both sides have, and hand in and out."""

    lossless: ClassVar[bool] = False
    """Everybody goes exactly where the server wants to: what theorems without a word about the downlink assume."""
    knows_prox: ClassVar[bool] = True
    """It can go where a proximal term leads."""
    needs_everybody: ClassVar[bool] = True
    """A client that misses a round would be lost."""
    numbers: ClassVar[int] = 0
    """How many numbers every message tells to everybody."""

    @property
    def codings(self) -> tuple[Coding, ...]:
        """How the values of its messages may travel; where there are several, each has a mark of its own."""
        return (FULL,)

    def check(self, method: Method, prox: ElasticNet | None) -> None:
        """Raise where the downlink does not fit the method, or the proximal term."""
        if prox is not None and not self.knows_prox:
            raise ValueError(
                f"{type(self).__name__} tells clients a direction, and they know nothing of {type(prox).__name__}; "
                "use ef.Whole()"
            )
        if method.reads_steps and not (self.lossless and (prox is None or method.adds_penalty)):
            raise ValueError(
                f"clients of {type(method).__name__} read the estimate off the steps: they need a lossless downlink and no "
                "proximal term after it; use ef.Whole() or ef.Changed(), and a penalty within f"
            )
        if self.needs_everybody and not method.compressor.always:
            raise ValueError(
                f"{type(self).__name__} tells clients what changes, and with {method.compressor} some miss it; "
                "use ef.Whole()"
            )

    def start(self, x: Model) -> Any:
        """The memory before round 0, on both sides: all know the first x."""
        return None

    @abstractmethod
    def send(self, state: Any, x: Model, step: Step) -> tuple[Broadcast, Any]:
        """Move x, in place, to where everybody will go, and say what is told for that; `step.taken` is how it moved."""

    @abstractmethod
    def receive(self, state: Any, x: Model, broadcast: Broadcast) -> Any:
        """Move the clients' x, in place, to where the server's is; `broadcast` and x are right on the clients' features."""

    def known(self, support: Support, answers: Answers, coding: Coding) -> KnownLayout | None:
        """What the clients know of a message before it comes, but for its first byte, the coding; None: nothing."""
        return None

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence[Downlink]:
        """Instances for the conformance tests."""
