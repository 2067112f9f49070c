"""Inner products and sums of multiples on one core: no pool of threads has to wake up for them, and the same numbers give
the same bits.

Many long vectors are taken four at a time, and piece by piece: memory is read once for each of them, and what they meet
stays in the caches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numba
import numpy as np

from errorfeedback.core import Floats

FOUR = 4
PIECE, BLOCK = 2**16, 512
"""Numbers of a piece, of which some vectors stay in the far cache, and of a block, of which four stay in the near one."""


class Vector(Protocol):
    """An array, or what makes its pieces where they are asked for, so that a long one is never there as a whole."""

    def __len__(self) -> int: ...

    def __getitem__(self, piece: slice, /) -> Floats: ...


@dataclass(frozen=True, eq=False)
class Quadratic:
    """The curvature B of the model <g, s> + s'Bs/2 of the loss that a direction believes in."""

    forms: Callable[[Sequence[Vector]], Floats]
    """v'Bv of several vectors, which are gone through together."""
    g: Floats | None = None
    """Where the direction is d = B^-1 g of this g: then d'Bd = <g, d>."""

    def along(self, d: Floats) -> float:
        """d'Bd of the direction itself."""
        return float(self.forms([d])[0] if self.g is None else dot(self.g, d))


def products(rows: Sequence[Floats], vectors: Sequence[Vector]) -> Floats:
    """(vectors, rows): all inner products.

    >>> products([np.array([1.0, 2.0]), np.array([0.0, 3.0])], [np.ones(2)]).tolist()
    [[3.0, 3.0]]
    """
    return met(rows, vectors)[0]


def squares(vectors: Sequence[Vector]) -> Floats:
    """v'v of every one."""
    return met((), vectors)[1]


def met(rows: Sequence[Floats], vectors: Sequence[Vector]) -> tuple[Floats, Floats]:
    """The inner products of `products` and `squares`, in one go."""
    out, own = np.zeros((len(vectors), -(-len(rows) // FOUR) * FOUR)), np.zeros(len(vectors))
    for piece in _pieces(len(vectors[0])):
        here = _beside(vectors, piece)
        own += [dot(v, v) for v in here]
        for k, (a, b, c, d) in _fours(rows, piece):
            _four_products(a, b, c, d, here, out[:, k : k + FOUR])
    return out[:, : len(rows)], own


def add_multiples(q: Floats, rows: Sequence[Floats], shares: Floats) -> None:
    """q += sum_k shares[k] rows[k], in place."""
    padded = np.zeros(-(-len(rows) // FOUR) * FOUR)
    padded[: len(rows)] = shares
    for piece in _pieces(len(q)):
        for k, (a, b, c, d) in _fours(rows, piece):
            _add_four(q[piece], a, b, c, d, padded[k : k + FOUR])


def _pieces(length: int) -> Iterator[slice]:
    return (slice(lo, lo + PIECE) for lo in range(0, length, PIECE))


def _beside(vectors: Sequence[Vector], piece: slice) -> Floats:
    """(vectors, numbers): a piece of all of them."""
    return vectors[0][piece][None] if len(vectors) == 1 else np.array([v[piece] for v in vectors])


def _fours(rows: Sequence[Floats], piece: slice) -> Iterator[tuple[int, list[Floats]]]:
    """A piece of four rows at a time; the last one as often as it takes to make them four."""
    for k in range(0, len(rows), FOUR):
        four = [row[piece] for row in rows[k : k + FOUR]]
        yield k, four + four[-1:] * (FOUR - len(four))


@numba.njit(cache=True, nogil=True, fastmath=True)
def dot(u: Floats, v: Floats) -> float:
    """u'v."""
    total = 0.0
    for j in range(len(u)):
        total += np.float64(u[j]) * v[j]
    return total


@numba.njit(cache=True, nogil=True, fastmath=True)
def _four_products(a: Floats, b: Floats, c: Floats, d: Floats, vectors: Floats, out: Floats) -> None:
    """out[k] += the inner products of vectors[k] with all four, block by block."""
    for lo in range(0, len(a), BLOCK):
        at, bt, ct, dt = a[lo : lo + BLOCK], b[lo : lo + BLOCK], c[lo : lo + BLOCK], d[lo : lo + BLOCK]
        for k in range(len(vectors)):
            v = vectors[k, lo : lo + BLOCK]
            va, vb, vc, vd = 0.0, 0.0, 0.0, 0.0
            for j in range(len(v)):
                va += np.float64(at[j]) * v[j]
                vb += np.float64(bt[j]) * v[j]
                vc += np.float64(ct[j]) * v[j]
                vd += np.float64(dt[j]) * v[j]
            out[k, 0] += va
            out[k, 1] += vb
            out[k, 2] += vc
            out[k, 3] += vd


@numba.njit(cache=True, nogil=True)
def _add_four(q: Floats, a: Floats, b: Floats, c: Floats, d: Floats, shares: Floats) -> None:
    wa, wb, wc, wd = shares[0], shares[1], shares[2], shares[3]
    for j in range(len(q)):
        q[j] += (wa * a[j] + wb * b[j]) + (wc * c[j] + wd * d[j])
