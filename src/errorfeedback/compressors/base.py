"""Compressors act on every client's segment of a lifted vector and say what their message costs.

A *contractive* compressor has E||C(u) - u||^2 <= (1 - alpha)||u||^2; an *unbiased* one has E C(u) = u and
E||C(u) - u||^2 <= omega ||u||^2. All constants are those on R^{|J_i|} (Lemma 3), not on R^d.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from errorfeedback.compressors.frames import Frames, frame_bits
from errorfeedback.core import VALUE_BITS, Floats, Integers, Lifted, Model, PerClient, Round
from errorfeedback.sparsity.support import Support, add_at, add_through


@dataclass(slots=True, eq=False)
class Message:
    """What the clients of a shard send in a round: values at positions of the lifted space, in client order.

    A message may share its arrays with the operator that made it; it is valid until the operator's next call.
    """

    support: Support
    positions: Integers | None
    """None: every position, so no index crosses the wire."""
    values: Floats
    frames: Frames
    """How the values are put on the wire."""
    told: Floats | None = None
    """(n, ask.numbers): what else the rule asked the clients for."""

    def scatter(self, total: Model, fresh: bool, n: int) -> None:
        """total += P' message, one value after the other; from 0 where it is `fresh`; divided by n at the end unless 0."""
        if self.positions is not None:
            add_through(total, self.support.indices, self.positions, self.values, fresh, n)
            return
        if fresh:
            total.fill(0.0)
        add_at(total, self.support.indices, self.values)
        if n:
            total /= n

    def add_to(self, u: Lifted) -> Lifted:
        """u + message, in place."""
        if self.positions is None:
            u += self.values
        else:
            add_at(u, self.positions, self.values)
        return u

    def take_from(self, u: Lifted) -> Lifted:
        """u - message, in place."""
        if self.positions is None:
            u -= self.values
        else:
            u[self.positions] -= self.values
        return u

    def lifted(self) -> Lifted:
        """The message as a lifted vector."""
        return self.add_to(np.zeros(self.support.size, dtype=self.values.dtype))


NOWHERE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Agreed:
    """What both sides know of a message before it is sent."""

    frames: Frames
    positions: Integers | None = field(default_factory=lambda: NOWHERE)
    """Positions that are sent for sure, so that no index has to say so; None: every position."""


class Operator(ABC):
    """A compressor bound to the support of a shard, with its buffers. `frames`: what a message takes, where it is fixed."""

    def __init__(self, support: Support, frames: Frames) -> None:
        self.support, self.frames = support, frames

    @abstractmethod
    def __call__(self, u: Lifted, ctx: Round) -> Message: ...

    def follow(self, g: Lifted, grads: Lifted, ctx: Round) -> Message:
        """C(grads - g), which is added to g in place; `grads` may be overwritten."""
        message = self(np.subtract(grads, g, out=grads), ctx)
        message.add_to(g)
        return message

    def agreed(self, ctx: Round) -> Agreed:
        """What the server knows of the message of this round."""
        return Agreed(self.frames)

    @cached_property
    def whole(self) -> Frames:
        """What the uncompressed message takes."""
        s = self.support
        return Frames(s.sizes, np.zeros(s.n, dtype=np.int64), charged=s.n * s.d)

    @cached_property
    def empty(self) -> Frames:
        """What the empty message takes."""
        return Frames(*np.zeros((2, self.support.n), dtype=np.int64))

    def everything(self, u: Lifted) -> Message:
        """The uncompressed message: a client sends its |J_i| values; no index is needed."""
        return Message(self.support, None, u.copy(), self.whole)

    def nothing(self, u: Lifted) -> Message:
        """The empty message."""
        return Message(self.support, NOWHERE, u[:0], self.empty)


@dataclass(frozen=True)
class Compressor(ABC):
    """Configuration only; `on(support)` makes the operator."""

    @abstractmethod
    def on(self, support: Support) -> Operator: ...

    @abstractmethod
    def entries(self, support: Support) -> PerClient:
        """How many values each client sends in a round (on average, where it varies)."""

    def density(self, support: Support) -> float:
        """The expected share of all entries that is sent."""
        return float(self.entries(support).sum() / support.size)

    def index_bits(self, support: Support) -> PerClient:
        """What indices cost each client in a round (on average); nothing where the server can tell them by itself."""
        return np.zeros(support.n)

    def bits(self, support: Support) -> PerClient:
        """What the frame of a message of float64 values takes, for each client in a round (on average, where it varies)."""
        return frame_bits(self.entries(support), self.index_bits(support), VALUE_BITS)

    def frames(self, support: Support) -> Frames:
        """The same of the shard's clients, for operators that send as much in every round."""
        return Frames(self.entries(support).astype(np.int64), self.index_bits(support).astype(np.int64))

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


def bits_per_index(sizes: Integers) -> Integers:
    """ceil(log2 |J_i|): the bits of one index when both sides know J_i.

    >>> bits_per_index(np.array([1, 2, 3, 4, 5]))
    array([0, 1, 2, 2, 3])
    """
    return np.frexp((sizes - 1).astype(np.float64))[1].astype(np.int64)


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
        return self.levels(support) / support.sizes

    def entries(self, support: Support) -> PerClient:
        return self.levels(support).astype(np.float64)
