"""Compressors act on every client's segment of a lifted vector and say what their message costs.

A *contractive* compressor has E||C(u) - u||^2 <= (1 - alpha)||u||^2; an *unbiased* one has E C(u) = u and
E||C(u) - u||^2 <= omega ||u||^2. All constants are those on R^{|J_i|} (Lemma 3), not on R^d.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import VALUE_BITS, Integers, Lifted, PerClient, Round
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.coding import FULL, Coding
from errorfeedback.wire.frames import Frames, frame_bits, self_counted
from errorfeedback.wire.message import NOWHERE, KnownLayout, Message


class Operator(ABC):
    """A compressor bound to the `support` of a shard, with its buffers. `frames`: what a message takes, where it is
    fixed."""

    def __init__(self, support: Support, frames: Frames) -> None:
        self.support, self.frames = support, frames

    @abstractmethod
    def __call__(self, u: Lifted, ctx: Round) -> Message: ...

    def track(self, g: Lifted, grads: Lifted, ctx: Round) -> Message:
        """C(grads - g), which is added to g in place; `grads` may be overwritten."""
        message = self(Lifted(np.subtract(grads, g, out=grads)), ctx)
        message.add_to(g)
        return message

    def known(self, ctx: Round) -> KnownLayout:
        """What the server knows of the message of this round."""
        return KnownLayout(self.frames)

    @cached_property
    def whole(self) -> Frames:
        """What the uncompressed message takes."""
        s = self.support
        return Frames(s.sizes, np.zeros(s.n, dtype=np.int64), charged=s.n * s.d)

    @cached_property
    def empty(self) -> Frames:
        """What the empty message takes."""
        return Frames(*np.zeros((2, self.support.n), dtype=np.int64))

    @cached_property
    def unannounced(self) -> Frames:
        """What is known of a message of which clients alone know how much they send: nothing."""
        return self_counted(np.zeros(self.support.n, dtype=np.int64), self.support.sizes, self.frames.coding)

    @property
    def wire(self) -> Support:
        """The space of the numbers that cross the wire: that of u, unless they are folded."""
        return self.support

    def folded(self, message: Message) -> Message:
        """The last message as it crosses the wire."""
        return message

    def unfolded(self, message: Message) -> Message:
        """What crossed the wire, in the space of u."""
        return message

    def everything(self, u: Lifted) -> Message:
        """The uncompressed message: a client sends its |J_i| values; no index is needed."""
        return Message(self.support, None, u.copy(), self.whole)

    def nothing(self, u: Lifted) -> Message:
        """The empty message."""
        return Message(self.support, NOWHERE, u[:0], self.empty)


@dataclass(frozen=True)
class Compressor(ABC):
    """Configuration only; `on(support)` makes the operator."""

    always: ClassVar[bool] = True
    """Every client takes part in every round."""
    announces: ClassVar[bool] = True
    """The server knows beforehand how many numbers a client will send."""
    selects: ClassVar[bool] = True
    """What is sent are entries of u, as they are or scaled, and not in few bits already."""

    @abstractmethod
    def on(self, support: Support) -> Operator: ...

    @abstractmethod
    def entries(self, support: Support) -> PerClient:
        """How many values each client sends in a round (on average, where it varies)."""

    def most_entries(self, support: Support) -> PerClient:
        """How many values each client sends at most."""
        return PerClient(np.ceil(self.entries(support)))

    def density(self, support: Support) -> float:
        """The expected share of all entries that is sent; values in few bits count for the bits that they take."""
        bits = self.coding.bits(self.entries(support), VALUE_BITS)
        return float(bits.sum() / (VALUE_BITS * support.size))

    def index_bits(self, support: Support) -> PerClient:
        """What indices cost each client in a round (on average); nothing where the server can tell them by itself."""
        return PerClient(np.zeros(support.n))

    @property
    def coding(self) -> Coding:
        """How the values travel."""
        return FULL

    def message_bits(self, support: Support, coding: Coding | None = None) -> PerClient:
        """What the frame of a message takes, for each client in a round (on average, where it varies), where full precision
        is float64; or where the values travel in that coding."""
        coding, entries = self.coding if coding is None else coding, self.entries(support)
        return PerClient(frame_bits(entries, self.index_bits(support), coding.bits(entries, VALUE_BITS)))

    def frames(self, support: Support) -> Frames:
        """The same of the shard's clients, for operators that send as much in every round."""
        return Frames(self.entries(support).astype(np.int64), self.index_bits(support).astype(np.int64), self.coding)

    @classmethod
    @abstractmethod
    def examples(cls) -> Sequence[Compressor]:
        """Instances for the conformance tests (any problem with at least 3 clients of at least 2 features)."""

    def check(self, support: Support) -> None:  # noqa: B027  (most compressors fit every support)
        """Raise where this compressor does not fit the support."""


class Contractive(Compressor):
    """||C(u) - u||^2 <= (1 - alpha)||u||^2 on a client's segment, in expectation."""

    deterministic: ClassVar[bool] = True
    """The inequality holds for every call, and not only on average."""

    @abstractmethod
    def alpha(self, support: Support) -> PerClient: ...

    def exact(self, support: Support) -> NDArray[np.bool_]:
        """(d,): the features that every owner sends exactly in every round, beside what alpha says about the rest."""
        return np.zeros(support.d, dtype=bool)


class Unbiased(Compressor):
    """E C(u) = u, E||C(u) - u||^2 <= omega ||u||^2; together E||(1/n) sum (C_i(u_i) - u_i)||^2 <=
    A (1/n) sum ||u_i||^2 - B ||(1/n) sum u_i||^2 (the AB inequality of Szlendak et al. 2022)."""

    @abstractmethod
    def omega(self, support: Support) -> PerClient: ...

    @property
    @abstractmethod
    def independent(self) -> bool:
        """Whether the clients' draws are independent of each other."""

    def ab(self, support: Support) -> tuple[float, float]:
        """(A, B); independent draws give (max omega / n, 0)."""
        return float(self.omega(support).max()) / support.n_total, 0.0


def check_k(k: object) -> tuple[int, ...] | int:
    """K as an int >= 1 or a tuple of them, one per client."""
    if isinstance(k, (bool, np.bool_)):
        raise ValueError(f"K = {k}; it must be a whole number of at least 1")
    if isinstance(k, (int, np.integer)):
        levels: tuple[int, ...] | int = int(k)
        smallest = int(k)
    elif isinstance(k, (Sequence, np.ndarray)) and len(k) and np.asarray(k).dtype.kind in "iu":
        levels = tuple(int(level) for level in k)
        smallest = min(levels)
    else:
        raise ValueError(f"K = {k!r}; it must be a whole number, or one whole number per client")
    if smallest < 1:
        raise ValueError(f"K = {k}; it must be at least 1")
    return levels


@dataclass(frozen=True)
class Sparsifier(Compressor):
    """Sends K of a client's |J_i| entries. K: an int, or one per client; min(K_i, |J_i|) is what is sent."""

    k: int | Sequence[int]
    """K."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", check_k(self.k))

    def check(self, support: Support) -> None:
        if isinstance(self.k, tuple) and len(self.k) != support.n_total:
            raise ValueError(f"K has {len(self.k)} entries, but there are {support.n_total} clients; give one per client")

    def levels(self, support: Support) -> Integers:
        """min(K_i, |J_i|) of the shard's clients."""
        self.check(support)
        k = np.asarray(self.k)
        if k.ndim:
            k = k[support.first : support.first + support.n]
        return np.minimum(k, support.sizes).astype(np.int64)

    def share(self, support: Support) -> PerClient:
        """min(K_i, |J_i|) / |J_i|."""
        return PerClient(self.levels(support) / support.sizes)

    def entries(self, support: Support) -> PerClient:
        return PerClient(self.levels(support).astype(np.float64))
