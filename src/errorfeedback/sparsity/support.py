"""Who owns which feature (section 4), and the lifted space.

Z is the set of pairs (i, j) for which f_i does not depend on x_j. J_i are the features of client i, I_j the clients
of feature j, c = max_j |I_j|, r = max_i |J_i|. The *lifted* space puts the active coordinates of all clients one
after the other. `gather` is the matrix P that hands every client its coordinates of x, `scatter` is P'; P'P =
diag(|I_j|), hence c = ||P||^2 and Lemma 4 reads ||P'u||^2 <= c ||u||^2.

A model of q outputs (one per class) has q numbers for every feature of the data, and who owns the feature owns them all. To
everything here they are q features: the numbers j q, ..., j q + q - 1. `by_feature` is the same with one number for each.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numba
import numpy as np

from errorfeedback.core import Floats, Integers, Lifted, Model, PerClient
from errorfeedback.machine import prefetch

PIECE = 2**20
"""Positions of a lifted vector of which the squares are taken at once."""
AHEAD, FEW = 32, 2**10
"""How many numbers before its use a far one is asked for, where there are more than a few."""


@dataclass(frozen=True, eq=False)
class Support:
    """The sets J_i of the clients from number `first` on, of `n_total` in all, as segments of the lifted space.

    >>> s = Support(indptr=np.array([0, 2, 3]), indices=np.array([0, 1, 1]), d=2)
    >>> s.c, s.r, s.gather(np.array([5.0, 7.0])), s.scatter(np.array([1.0, 2.0, 3.0]))
    (2, 2, array([5., 7., 7.]), array([1., 5.]))
    """

    indptr: Integers
    """(n + 1,): client i's segment is indptr[i]:indptr[i+1]."""
    indices: Integers
    """(sum |J_i|,): the feature at each position, ascending within a segment."""
    d: int
    """Features."""
    first: int = 0
    """The number of this shard's first client among all."""
    counts: Integers = field(default=None)  # type: ignore[arg-type]
    """(d,): |I_j| over *all* clients, also in a shard."""
    earlier: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    """The features of all clients before this shard's first, one client after the other."""
    n_total: int = 0
    """All clients, also in a shard."""
    outputs: int = 1
    """How many numbers in a row belong to one feature of the data."""

    def __post_init__(self) -> None:
        if self.counts is None:
            object.__setattr__(self, "counts", np.bincount(self.indices, minlength=self.d))
            object.__setattr__(self, "n_total", self.first + self.n)

    @property
    def n(self) -> int:
        """Clients in this shard."""
        return len(self.indptr) - 1

    @property
    def size(self) -> int:
        """The length of a lifted vector, sum_i |J_i| (the complement of Z)."""
        return len(self.indices)

    @cached_property
    def sizes(self) -> Integers:
        """|J_i| of every client."""
        return np.diff(self.indptr)

    @cached_property
    def c(self) -> int:
        """The most clients that share a feature, over all clients."""
        return int(self.counts.max())

    @cached_property
    def r(self) -> int:
        """The most features of a client (of this shard)."""
        return int(self.sizes.max())

    @cached_property
    def dense(self) -> bool:
        """Whether every client owns every feature."""
        return int(self.counts.min()) == self.n_total

    @cached_property
    def ranks(self) -> Integers:
        """(sum |J_i|,): the place of the client among the owners I_j of the feature at each position."""
        out = np.empty(self.size, dtype=np.int32)
        _ranks(self.indices, np.bincount(self.earlier, minlength=self.d).astype(np.int32), out)
        return out

    def features(self, client: int) -> Integers:
        """J_i."""
        return self.indices[self.indptr[client] : self.indptr[client + 1]]

    def owners(self, feature: int) -> Integers:
        """I_j within this shard."""
        return np.searchsorted(self.indptr, np.flatnonzero(self.indices == feature), side="right") - 1 + self.first

    def gather(self, x: Model) -> Lifted:
        """P x: every client's coordinates of x."""
        if self.outputs == 1:
            return Lifted(x[self.indices])
        return Lifted(x.reshape(-1, self.outputs)[self.by_feature.indices].ravel())

    def scatter(self, u: Lifted) -> Model:
        """P'u: the sum over clients, added up in client order."""
        total = Model(np.zeros(self.d, dtype=u.dtype))
        self.add_up(u, total)
        return total

    def add_up(self, u: Lifted, total: Model) -> None:
        """total += P'u, likewise, in place."""
        if self.outputs == 1:
            add_at(total, self.indices, u)
        else:
            add_rows_at(total.reshape(-1, self.outputs), self.by_feature.indices, u.reshape(-1, self.outputs))

    def norms2(self, u: Lifted) -> PerClient:
        """||u_i||^2 of every client; where there are many, some after others, so that the squares take little room."""
        if self.size <= PIECE:
            return self.sums(Lifted(np.square(u, dtype=np.float64)))
        pieces = np.searchsorted(self.indptr, np.arange(PIECE, self.size, PIECE))
        ends = np.unique(np.concatenate([[0], pieces, [self.n]]))
        return PerClient(np.concatenate([self._norms2(u, lo, hi) for lo, hi in pairwise(ends.tolist())]))

    def _norms2(self, u: Lifted, lo: int, hi: int) -> Floats:
        start, squares = self.indptr[lo], np.square(u[self.indptr[lo] : self.indptr[hi]], dtype=np.float64)
        return np.asarray(np.add.reduceat(squares, self.indptr[lo:hi] - start))

    def sums(self, u: Lifted) -> PerClient:
        """The sum of every client's segment."""
        return PerClient(np.add.reduceat(u, self.indptr[:-1], dtype=np.float64))

    def repeat(self, weights: PerClient) -> Lifted:
        """Every client's number at each of its positions."""
        return Lifted(np.repeat(weights, self.sizes))

    def max_over_features(self, weights: PerClient) -> float:
        """max_j sum_{i in I_j} w_i."""
        return float(self.scatter(self.repeat(weights)).max())

    def separate(self) -> Support:
        """As if no two clients shared a feature: the lifted space in place of R^d."""
        return Support(indptr=self.indptr, indices=np.arange(self.size), d=self.size, outputs=self.outputs)

    @cached_property
    def by_feature(self) -> Support:
        """The same owners with one number for every feature of the data.

        >>> Support(indptr=np.array([0, 1]), indices=np.array([0]), d=2).times(3).by_feature.indices.tolist()
        [0]
        """
        q = self.outputs
        if q == 1:
            return self
        return Support(
            indptr=self.indptr // q,
            indices=self.indices[::q] // q,
            d=self.d // q,
            first=self.first,
            counts=self.counts[::q],
            earlier=self.earlier[::q] // q,
            n_total=self.n_total,
        )

    def times(self, outputs: int) -> Support:
        """The same owners with that many numbers for every feature.

        >>> Support(indptr=np.array([0, 1, 2]), indices=np.array([1, 0]), d=2).times(2).indices.tolist()
        [2, 3, 0, 1]
        """
        if outputs == 1:
            return self
        return Support(
            indptr=self.indptr * outputs,
            indices=runs(self.indices, outputs),
            d=self.d * outputs,
            first=self.first,
            counts=np.repeat(self.counts, outputs),
            earlier=runs(self.earlier, outputs),
            n_total=self.n_total,
            outputs=outputs,
        )

    def of(self, clients: Integers, first: int, n_total: int) -> Support:
        """Some of these clients, as if there were no others: those in these places (ascending), from number `first` on of
        `n_total`. `counts` are those of these clients alone.

        >>> Support(indptr=np.array([0, 2, 3, 4]), indices=np.array([0, 1, 1, 0]), d=2).of(np.array([0, 2]), 0, 2).indices
        array([0, 1, 0])
        """
        chosen = np.zeros(self.n, dtype=bool)
        chosen[clients] = True
        indices = self.indices[np.repeat(chosen, self.sizes)]
        return Support(
            indptr=np.concatenate([[0], np.cumsum(self.sizes[clients])]),
            indices=indices,
            d=self.d,
            first=first,
            counts=np.bincount(indices, minlength=self.d),
            n_total=n_total,
            outputs=self.outputs,
        )

    def shard(self, lo: int, hi: int) -> Support:
        """The clients lo, ..., hi - 1 of this support."""
        start, stop = self.indptr[lo], self.indptr[hi]
        return Support(
            indptr=self.indptr[lo : hi + 1] - start,
            indices=self.indices[start:stop],
            d=self.d,
            first=self.first + lo,
            counts=self.counts,
            earlier=np.concatenate([self.earlier, self.indices[:start]]) if len(self.earlier) else self.indices[:start],
            n_total=self.n_total,
            outputs=self.outputs,
        )


def runs(numbers: Integers, length: int) -> Integers:
    """Every number j as j q, ..., j q + q - 1, for runs of that length q.

    >>> runs(np.array([0, 2]), 3).tolist()
    [0, 1, 2, 6, 7, 8]
    """
    if length == 1:
        return numbers
    largest = int(numbers.max(initial=0) + 1) * length
    wide: Integers = numbers.astype(np.int32 if largest < 2**31 else np.int64)
    return np.add.outer(wide * length, np.arange(length, dtype=wide.dtype)).ravel()


def full_support(n: int, d: int) -> Support:
    """Every client owns every feature: c = n, r = d.

    >>> full_support(3, 2).c
    3
    """
    return Support(indptr=np.arange(n + 1) * d, indices=np.tile(np.arange(d, dtype=np.int32), n), d=d)


def support_of(entries: Integers, features: Integers, d: int) -> tuple[Support, Integers]:
    """The support of clients whose stored entries are entries[i]:entries[i+1], and the position of each entry."""
    indptr = np.zeros(len(entries), dtype=np.int64)
    indices = np.empty(len(features), dtype=features.dtype)
    positions: Integers = np.empty(len(features), dtype=np.int32 if len(features) < 2**31 else np.int64)
    _segments(entries, features, np.full(d, -1, dtype=np.int64), indptr, indices, positions)
    return Support(indptr=indptr, indices=indices[: indptr[-1]].copy(), d=d), positions


@numba.njit(cache=True, nogil=True)
def counted(places: Integers, size: int) -> Integers:
    """How often each of the places 0, ..., size - 1 is named."""
    counts = np.zeros(size, dtype=np.int64)
    for k in range(len(places)):
        counts[places[k]] += 1
    return counts


@numba.njit(cache=True, nogil=True)
def add_at(total: Floats, places: Integers, values: Floats) -> None:
    """total[places] += values, one after the other, so that the order of the sum is the order of the values."""
    for k in range(len(places)):
        total[places[k]] += values[k]


@numba.njit(cache=True, nogil=True)
def add_rows_at(total: Floats, places: Integers, values: Floats) -> None:
    """The same with rows of numbers."""
    for k in range(len(places)):
        row = total[places[k]]
        for o in range(len(row)):
            row[o] += values[k, o]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_through(total: Floats, indices: Integers, places: Integers, values: Floats, fresh: bool, n: int) -> None:
    """total[indices[places]] += values, likewise; from 0 where it is `fresh`, and divided by n at the end unless 0."""
    if fresh:
        total[:] = 0.0
    last, far = len(places) - 1, len(places) > FEW
    for k in range(len(places)):
        if far:  # two reads from anywhere in memory, the second at what the first finds
            prefetch(indices, places[min(k + 2 * AHEAD, last)])
            prefetch(total, indices[places[min(k + AHEAD, last)]])
        total[indices[places[k]]] += values[k]
    if n:
        for j in range(len(total)):
            total[j] /= n


@numba.njit(cache=True, nogil=True)
def descend(x: Model, direction: Model, gamma: float, step: Model) -> None:
    """step = -gamma direction, x += step; where `step` is empty, nobody asked for it."""
    if len(step):
        for j in range(len(x)):
            step[j] = -gamma * direction[j]
            x[j] += step[j]
    else:
        for j in range(len(x)):
            x[j] += x.dtype.type(-gamma * direction[j])


@numba.njit(cache=True)
def _segments(
    entries: Integers, features: Integers, seen: Integers, indptr: Integers, indices: Integers, positions: Integers
) -> None:
    """For each client: its distinct features in order, and where each of its entries finds its own."""
    size = 0
    for i in range(len(entries) - 1):
        lo, hi, start = entries[i], entries[i + 1], size
        for k in range(lo, hi):
            j = features[k]
            if seen[j] < start:
                seen[j] = size
                indices[size] = j
                size += 1
        segment = indices[start:size]
        segment.sort()
        for p in range(start, size):
            seen[indices[p]] = p
        for k in range(lo, hi):
            positions[k] = seen[features[k]]
        indptr[i + 1] = size


@numba.njit(cache=True)
def _ranks(indices: Integers, before: Integers, out: Integers) -> None:
    for p in range(len(indices)):
        j = indices[p]
        out[p] = before[j]
        before[j] += 1
