"""PermK (Szlendak et al. 2022): the clients share out the features at random, so that what they send does not overlap.

One owner per feature (always possible; the published PermK for d >= n when all clients own everything): the features
are put in random order pi, and feature j is sent by owner number floor(|I_j| (pi(j) + U)/d) of I_j, scaled by |I_j|. With
U uniform in [0, 1) every owner is equally likely, and dense clients get blocks of floor or ceil of d/n features.
    E||(1/n) sum (C_i(u_i) - u_i)||^2 <= (c/n) (1/n) sum ||u_i||^2 - ||(1/n) sum u_i||^2,     A = c/n, B = 1
because coordinate j of the mean is (|I_j|/n) u_{ij} for a uniform i in I_j. Dense: A = B = 1, as published.

One feature per client (dense support with n > d): the clients are put in random order pi, and client i sends feature
floor(d (pi(i) + U)/n), scaled by d. With P = P(two given clients send the same given feature) the mean's variance is
exactly A (1/n) sum ||u_i||^2 - B ||(1/n) sum u_i||^2 with A = (d^2/n) (1/d - P), B = 1 - d^2 P; n = q d gives the
published A = B = (d-1)/(n-1).

All draws come from the stream that clients and server share, so no index crosses the wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from errorfeedback.compressors.base import Operator, Unbiased
from errorfeedback.core import VALUE_BITS, Floats, Lifted, PerClient, Round
from errorfeedback.keyed import COIN, uniform, uniforms
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.coding import FULL, Coding
from errorfeedback.wire.frames import HEAD_BITS, Frames, count_bits
from errorfeedback.wire.message import KnownLayout, Message

ORDER = COIN - 1
"""The number of the shared stream that the random order is drawn from."""


@dataclass(frozen=True)
class PermK(Unbiased):
    """Collaborative sparsification.

    >>> from errorfeedback.sparsity.support import full_support
    >>> PermK().ab(full_support(3, 6)), PermK().ab(full_support(6, 3))
    ((1.0, 1.0), (0.4, 0.4))
    """

    def omega(self, support: Support) -> PerClient:
        if _one_feature_each(support):
            return PerClient(np.full(support.n, support.d - 1.0))
        # E|scaled u_j|^2 = |I_j| u_j^2, and the worst feature of a client counts
        counts = support.counts[support.indices]
        return PerClient(np.maximum.reduceat(counts, support.indptr[:-1]) - 1.0)

    @property
    def independent(self) -> bool:
        return False

    def ab(self, support: Support) -> tuple[float, float]:
        n, d = support.n_total, support.d
        if not _one_feature_each(support):
            return support.c / n, 1.0
        q, rest = divmod(n, d)
        pairs = rest * (q + 1) * q + (d - rest) * q * (q - 1)  # ordered pairs of clients that send the same feature
        # d P = pairs / (n (n-1)); multiplied out, so that n = q d gives (d-1)/(n-1) without rounding
        total = n * (n - 1)
        return d * (total - pairs) / (total * n), (total - d * pairs) / total

    def density(self, support: Support) -> float:
        return support.n / support.size if _one_feature_each(support) else support.d / support.size

    def entries(self, support: Support) -> PerClient:
        return PerClient(
            np.ones(support.n) if _one_feature_each(support) else support.sums(Lifted(1.0 / support.counts[support.indices]))
        )

    def on(self, support: Support) -> Operator:
        kind = _FeaturePerClient if _one_feature_each(support) else _OwnerPerFeature
        return kind(support, self.frames(support))

    def message_bits(self, support: Support, coding: Coding | None = None) -> PerClient:
        """A client to which no feature falls sends nothing: with probability prod_j (1 - 1/|I_j|), were the draws
        independent; dense clients always have one."""
        entries = self.entries(support)
        head, values = HEAD_BITS + count_bits(entries), (coding or FULL).bits(entries, VALUE_BITS)
        if support.dense:
            return PerClient(head + values)
        with np.errstate(divide="ignore"):
            idle = np.exp(support.sums(Lifted(np.log1p(-1.0 / support.counts[support.indices]))))
        return PerClient((1 - idle) * head + values)

    @classmethod
    def examples(cls) -> Sequence[PermK]:
        return [cls()]


def _one_feature_each(support: Support) -> bool:
    return support.dense and support.n_total > support.d


def _places(total: int, ctx: Round) -> Floats:
    """(pi + U)/total for a random order pi and one uniform U: every entry is uniform in [0, 1)."""
    keys = np.empty(total)
    uniforms(ctx.seed, ctx.t, ORDER, keys)
    order = np.empty(total)
    order[np.argsort(keys, kind="stable")] = np.arange(total)
    return (order + uniform(ctx.seed, ctx.t, ORDER - 1)) / total


class _OwnerPerFeature(Operator):
    def __call__(self, u: Lifted, ctx: Round) -> Message:
        support, known = self.support, self.known(ctx)
        scale = support.counts[support.indices[known.positions]].astype(u.dtype)
        return Message(support, known.positions, u[known.positions] * scale, known.frames)

    def known(self, ctx: Round) -> KnownLayout:
        support = self.support
        chosen = np.minimum(np.floor(support.counts * _places(support.d, ctx)), support.counts - 1)
        positions = np.flatnonzero(chosen[support.indices] == support.ranks)
        counts = np.diff(np.searchsorted(positions, support.indptr))
        return KnownLayout(Frames(counts, np.zeros_like(counts)), positions)


class _FeaturePerClient(Operator):
    def __call__(self, u: Lifted, ctx: Round) -> Message:
        positions = self.known(ctx).positions
        return Message(self.support, positions, u[positions] * u.dtype.type(self.support.d), self.frames)

    def known(self, ctx: Round) -> KnownLayout:
        support, d = self.support, self.support.d
        mine = _places(support.n_total, ctx)[support.first : support.first + support.n]
        feature = np.minimum(np.floor(d * mine), d - 1).astype(np.int64)
        return KnownLayout(self.frames, support.indptr[:-1] + feature)
