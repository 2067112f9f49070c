"""Rank R of symmetric matrices (FedNL: Safaryan et al. 2021): the R eigenvalues of largest magnitude, and their vectors,

    C(U) = sum_{r <= R} lambda_r v_r v_r',   ||C(U) - U||_F^2 <= (1 - R/s) ||U||_F^2   for U of size s x s,

as the squares of the others are at most (s - R)/s of all. It is for Hessians, which are lifted as upper triangles
(`sparsity.pairs`): a client sends R (s + 1) numbers in place of s (s + 1)/2, lambda_r before v_r, and both sides multiply
them out in the same order, so that they go on with the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numba
import numpy as np

from errorfeedback.compressors.base import Contractive, Operator, check_k
from errorfeedback.core import Floats, Integers, Lifted, Model, PerClient, Round
from errorfeedback.sparsity.pairs import symmetric
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.frames import Frames
from errorfeedback.wire.message import KnownLayout, Message


def sides(support: Support) -> Integers:
    """s of every client that has s (s + 1)/2 entries."""
    return ((np.sqrt(8.0 * support.sizes + 1) - 1) / 2).round().astype(np.int64)


@dataclass(frozen=True)
class LowRank(Contractive):
    """`rank`: R; alpha is in the Frobenius norm.

    >>> from errorfeedback.sparsity.pairs import pairs_of
    >>> from errorfeedback.sparsity.support import full_support
    >>> LowRank(1).alpha(pairs_of(full_support(1, 4))), LowRank(1).entries(pairs_of(full_support(1, 4)))
    (array([0.25]), array([5.]))
    """

    rank: int

    def __post_init__(self) -> None:
        if not isinstance(check_k(self.rank), int):
            raise ValueError(f"rank = {self.rank}; it must be one whole number")

    def check(self, support: Support) -> None:
        s = sides(support)
        if not np.array_equal(s * (s + 1) // 2, support.sizes):
            raise ValueError("LowRank compresses matrices: the Hessians of ef.FedNL and ef.Curvature, and no gradients")

    def ranks(self, support: Support) -> Integers:
        """min(R, s) of every client."""
        self.check(support)
        return np.minimum(self.rank, sides(support))

    def alpha(self, support: Support) -> PerClient:
        return PerClient(self.ranks(support) / sides(support))

    def entries(self, support: Support) -> PerClient:
        return PerClient((self.ranks(support) * (sides(support) + 1)).astype(np.float64))

    def on(self, support: Support) -> Operator:
        return _Eigenvectors(support, self.frames(support), self.ranks(support))

    @classmethod
    def examples(cls) -> Sequence[LowRank]:
        return []  # no gradient is a matrix: tests/directions/test_second_order.py


class _Eigenvectors(Operator):
    def __init__(self, support: Support, frames: Frames, ranks: Integers) -> None:
        super().__init__(support, frames)
        self.ranks, self.sides = ranks, sides(support)
        self.factors = np.empty(frames.total)

    @cached_property
    def wire(self) -> Support:
        ends = np.concatenate([[0], np.cumsum(self.frames.counts)])
        positions = np.arange(ends[-1])
        return Support(ends, positions, len(positions), first=self.support.first)

    def __call__(self, u: Lifted, ctx: Round) -> Message:
        self.factors = np.empty(self.frames.total)
        at, ends = 0, self.support.indptr
        for i, (s, r) in enumerate(zip(self.sides.tolist(), self.ranks.tolist(), strict=True)):
            values, vectors = np.linalg.eigh(symmetric(Model(u[ends[i] : ends[i + 1]]), s))
            largest = np.argsort(-np.abs(values), kind="stable")[:r]
            self.factors[at : at + r * (s + 1)] = np.column_stack([values[largest], vectors[:, largest].T]).ravel()
            at += r * (s + 1)
        return self.unfolded(self.folded(Message(self.support, None, u, self.frames)))

    def folded(self, message: Message) -> Message:
        return Message(self.wire, None, self.factors, self.frames, telemetry=message.telemetry)

    def unfolded(self, message: Message) -> Message:
        values = np.empty(self.support.size)
        _multiply_out(message.values, self.sides, self.ranks, values)
        return Message(self.support, None, values, self.frames, telemetry=message.telemetry)

    def known(self, ctx: Round) -> KnownLayout:
        return KnownLayout(self.frames, None)


@numba.njit(cache=True, nogil=True)
def _multiply_out(factors: Floats, sides: Integers, ranks: Integers, out: Floats) -> None:
    """The upper triangles of sum_r lambda_r v_r v_r', one client after the other."""
    first = at = 0
    for i in range(len(sides)):
        s = sides[i]
        for p in range(s):
            for q in range(p, s):
                total = 0.0
                for r in range(ranks[i]):
                    v = first + r * (s + 1) + 1
                    total += factors[v - 1] * (factors[v + p] * factors[v + q])
                out[at] = total
                at += 1
        first += ranks[i] * (s + 1)
