"""Exact on common, TopK on rare (ours): a client sends its features of S0 exactly, and the K largest of its others.

    ||C(u) - u||^2 <= (1 - min(K, |J_i \\ S0|)/|J_i \\ S0|) ||u off S0||^2,   and the error C(u) - u is zero on S0.

One common feature (an intercept) makes c = n and spoils Theorem 1; sent exactly it does not count. A value of S0 needs
no index, because both sides know S0 and J_i; an index of the rest costs ceil(log2 |J_i \\ S0|) bits. A client that owns
features of S0 only sends all it has: alpha_i = 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from errorfeedback.compressors.base import Contractive, Operator, check_k
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import Integers, Lifted, PerClient, Round
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.frames import Frames, bits_per_index
from errorfeedback.wire.message import KnownLayout, Message


def most_common(support: Support, size: int) -> tuple[int, ...]:
    """The `size` features that most clients own; ties go to the lower number.

    >>> most_common(Support(indptr=np.array([0, 2, 3]), indices=np.array([0, 1, 1]), d=2), 1)
    (1,)
    """
    return tuple(np.argsort(-support.counts, kind="stable")[:size].tolist())


@dataclass(frozen=True)
class ExactOnCommon(Contractive):
    """`common`: S0, as numbers of active features (`problem.support`); `k`: K of the others, as in TopK.

    >>> from errorfeedback.sparsity.support import full_support
    >>> ExactOnCommon(common=(2,), k=1).on(full_support(1, 3))(np.array([1.0, -4.0, 2.0]), Round(0, 0)).lifted()
    array([ 0., -4.,  2.])
    """

    common: Sequence[int]
    k: int | Sequence[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "k", check_k(self.k))
        common = np.asarray(self.common)
        if common.ndim != 1 or (len(common) and common.dtype.kind not in "iu"):
            raise ValueError(f"common = {self.common!r}; it must be a list of feature numbers")
        object.__setattr__(self, "common", tuple(int(j) for j in common))
        if len(set(self.common)) < len(self.common):
            raise ValueError(f"common = {self.common}; a feature is there twice")

    def check(self, support: Support) -> None:
        wrong = [j for j in self.common if not 0 <= j < support.d]
        if wrong:
            raise ValueError(f"common holds feature {wrong[0]}, but the active features are 0 to {support.d - 1}")
        if isinstance(self.k, tuple) and len(self.k) != support.n_total:
            raise ValueError(f"K has {len(self.k)} entries, but there are {support.n_total} clients; give one per client")

    def exact(self, support: Support) -> NDArray[np.bool_]:
        mask = np.zeros(support.d, dtype=bool)
        mask[list(self.common)] = True
        return mask

    def rest(self, support: Support) -> Integers:
        """|J_i minus S0| of every client."""
        return np.add.reduceat(~self.exact(support)[support.indices], support.indptr[:-1], dtype=np.int64)

    def levels(self, support: Support) -> Integers:
        """min(K_i, |J_i minus S0|)."""
        self.check(support)
        k = np.asarray(self.k)
        if k.ndim:
            k = k[support.first : support.first + support.n]
        return np.minimum(k, self.rest(support))

    def alpha(self, support: Support) -> PerClient:
        rest = self.rest(support)
        return PerClient(np.where(rest > 0, self.levels(support) / np.maximum(rest, 1), 1.0))

    def entries(self, support: Support) -> PerClient:
        return PerClient((support.sizes - self.rest(support) + self.levels(support)).astype(np.float64))

    def index_bits(self, support: Support) -> PerClient:
        rest, levels = self.rest(support), self.levels(support)
        index = np.where(levels < rest, bits_per_index(np.maximum(rest, 1)), 0)
        return PerClient((levels * index).astype(np.float64))

    def on(self, support: Support) -> Operator:
        return _Split(support, self.exact(support), self.levels(support), self.frames(support))

    @classmethod
    def examples(cls) -> Sequence[ExactOnCommon]:
        return [cls((0,)), cls((1, 0), 2)]


class _Split(Operator):
    """S0 as it is, and TopK on the segments that are left when S0 is cut out of them."""

    def __init__(self, support: Support, exact: NDArray[np.bool_], levels: Integers, frames: Frames) -> None:
        super().__init__(support, frames)
        common = exact[support.indices]
        self.common = np.flatnonzero(common)
        self.rest = np.flatnonzero(~common)
        sizes = np.add.reduceat(~common, support.indptr[:-1], dtype=np.int64)
        owners = sizes > 0
        self.top: Operator | None = None
        if owners.any():
            indptr = np.concatenate([[0], np.cumsum(sizes[owners])])
            segments = Support(indptr=indptr, indices=support.indices[self.rest], d=support.d)
            self.top = TopK(levels[owners].tolist()).on(segments)

    def __call__(self, u: Lifted, ctx: Round) -> Message:
        positions = self.common
        if self.top is not None:
            chosen = self.top(Lifted(u[self.rest]), ctx).positions
            positions = np.sort(np.concatenate([positions, self.rest[chosen]]))
        return Message(self.support, positions, u[positions], self.frames)

    def known(self, ctx: Round) -> KnownLayout:
        return KnownLayout(self.frames, self.common)
