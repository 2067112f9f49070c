"""Partial participation (ours): client i answers with probability p_i and otherwise sends nothing.

    E||C(u) - u||^2 = p_i E||C_i(u) - u||^2 + (1 - p_i) ||u||^2 <= (1 - p_i alpha_i) ||u||^2,

so alpha_i becomes p_i alpha_i, and every theorem about EF21 holds in expectation. The server divides by n, never by the
number of answers. Who answers is keyed by (seed, round, client): all engines agree on it. A client that does not answer
needs no x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from errorfeedback.compressors.base import Compressor, Contractive, Operator
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import Integers, Lifted, PerClient, Round
from errorfeedback.keyed import toss
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.coding import Coding
from errorfeedback.wire.frames import Frames
from errorfeedback.wire.message import KnownLayout, Message

ANSWERS = -(2**40)
"""Client i's coin is the stream ANSWERS - i: apart from the streams that compressors draw from."""


def check_probabilities(given: float | Sequence[float]) -> float | tuple[float, ...]:
    """One probability, or one per client, as a number or a tuple."""
    p = np.asarray(given, dtype=np.float64)
    if p.ndim > 1 or not p.size or not ((p > 0) & (p <= 1)).all():
        raise ValueError(f"p = {given}; every probability must be in (0, 1]")
    return tuple(p.tolist()) if p.ndim else float(p)


@dataclass(frozen=True)
class NowAndThen(Compressor):
    """A compressor for clients that answer with probability p_i; `p`: one probability, or one per client."""

    compressor: Compressor
    """For those that answer."""
    p: float | Sequence[float]
    always: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "p", check_probabilities(self.p))
        if not self.compressor.announces:
            raise ValueError(
                f"{self.compressor} sends as many numbers as it likes, and the server could not tell a client that sends "
                "nothing from one that is not there; use a compressor that announces them, such as ef.TopK"
            )

    @property
    def selects(self) -> bool:  # type: ignore[override]
        return self.compressor.selects

    @property
    def coding(self) -> Coding:
        return self.compressor.coding

    def check(self, support: Support) -> None:
        self.compressor.check(support)
        if isinstance(self.p, tuple) and len(self.p) != support.n_total:
            raise ValueError(f"p has {len(self.p)} entries, but there are {support.n_total} clients; give one per client")

    def probabilities(self, support: Support) -> PerClient:
        """p_i of the shard's clients."""
        every = np.broadcast_to(np.asarray(self.p), (support.n_total,))
        return PerClient(every[support.first : support.first + support.n])

    def entries(self, support: Support) -> PerClient:
        return PerClient(self.probabilities(support) * self.compressor.entries(support))

    def most_entries(self, support: Support) -> PerClient:
        return self.compressor.most_entries(support)

    def index_bits(self, support: Support) -> PerClient:
        return PerClient(self.probabilities(support) * self.compressor.index_bits(support))

    def message_bits(self, support: Support, coding: Coding | None = None) -> PerClient:
        return PerClient(self.probabilities(support) * self.compressor.message_bits(support, coding))


@dataclass(frozen=True)
class Participating(NowAndThen, Contractive):
    """A contractive compressor for clients that answer now and then; p: one probability, or one per client.

    >>> from errorfeedback.sparsity.support import full_support
    >>> Participating(TopK(1), p=0.5).alpha(full_support(2, 5))
    array([0.1, 0.1])
    """

    compressor: Contractive
    deterministic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.compressor, Contractive):
            raise ValueError(f"Participating needs a contractive compressor, and {self.compressor} is not")
        super().__post_init__()

    def alpha(self, support: Support) -> PerClient:
        return PerClient(self.probabilities(support) * self.compressor.alpha(support))

    def on(self, support: Support) -> Operator:
        return Attendance(self.compressor.on(support), self.probabilities(support))

    @classmethod
    def examples(cls) -> Sequence[Participating]:
        return [cls(TopK(1), 0.5)]


class Attendance(Operator):
    """What the operator `inner` makes of those clients that answer."""

    def __init__(self, inner: Operator, p: PerClient) -> None:
        super().__init__(inner.support, inner.frames)
        self.inner, self.p = inner, np.ascontiguousarray(p)
        self.answers = np.empty(len(p), dtype=bool)

    def __call__(self, u: Lifted, ctx: Round) -> Message:
        message = self.inner(u, ctx)
        frames = self._toss(message.frames, ctx)
        return replace(message.only(self.answers), frames=frames)  # both sides know who answers

    def known(self, ctx: Round) -> KnownLayout:
        inner = self.inner.known(ctx)
        frames = self._toss(inner.frames, ctx)
        positions = np.arange(self.support.size) if inner.positions is None else inner.positions
        return KnownLayout(frames, positions[self._kept(positions)])

    def _toss(self, whole: Frames, ctx: Round) -> Frames:
        """Who answers, and what is left of the frames of all."""
        toss(ctx.seed, ctx.t, ANSWERS - self.support.first, self.p, self.answers)
        answers = self.answers.copy()
        return replace(whole, counts=whole.counts * answers, index_bits=whole.index_bits * answers, answers=answers)

    def _kept(self, positions: Integers) -> NDArray[np.bool_]:
        return self.answers[np.searchsorted(self.support.indptr, positions, side="right") - 1]
