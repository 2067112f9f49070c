"""Rows -> clients. A partition gives the row numbers of every client, one client after the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import Integers

Clients: TypeAlias = "int | Partition | Sequence[Any] | NDArray[Any]"
"""How users say it: a number of equal blocks, one client id per row, or a partition."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Client i (called names[i]) has the rows order[indptr[i]:indptr[i+1]]; `discarded` rows belong to nobody."""

    order: Integers
    indptr: Integers
    names: NDArray[Any]
    discarded: int = 0


class Partition(ABC):
    """A rule that deals rows to clients."""

    @abstractmethod
    def rows(self, total: int) -> Rows: ...


def _blocks(order: Integers, n: int) -> Rows:
    m = len(order) // n
    return Rows(order[: n * m], np.arange(n + 1) * m, np.arange(n), discarded=len(order) - n * m)


@dataclass(frozen=True)
class Shuffled(Partition):
    """Shuffle the rows with a seed, deal them evenly, discard the rest (the paper's LIBSVM experiments).

    >>> Shuffled(3, seed=0).rows(10).discarded
    1
    """

    n: int
    """Clients."""
    seed: int = 0
    """Of the shuffle."""

    def __post_init__(self) -> None:
        _check_count(self.n)

    def rows(self, total: int) -> Rows:
        _check_enough(self.n, total)
        return _blocks(np.random.default_rng(self.seed).permutation(total), self.n)


@dataclass(frozen=True)
class InOrder(Partition):
    """Equal blocks of consecutive rows in file order; the rest is discarded.

    >>> InOrder(3).rows(7).indptr
    array([0, 2, 4, 6])
    """

    n: int
    """Clients."""

    def __post_init__(self) -> None:
        _check_count(self.n)

    def rows(self, total: int) -> Rows:
        _check_enough(self.n, total)
        return _blocks(np.arange(total), self.n)


@dataclass(frozen=True, eq=False)
class ByGroup(Partition):
    """One client per distinct id (clients in the order of their ids, rows in file order).

    >>> ByGroup(["b", "a", "b"]).rows(3).order
    array([1, 0, 2])
    """

    ids: Sequence[Any] | NDArray[Any]
    """For every row, whose it is."""

    def rows(self, total: int) -> Rows:
        ids = np.asarray(self.ids)
        if ids.shape != (total,):
            raise ValueError(f"client ids have shape {ids.shape}, but the data has {total} rows; give one id per row")
        if ids.dtype.kind == "f" and np.isnan(ids).any():
            raise ValueError(f"row {int(np.flatnonzero(np.isnan(ids))[0])} has the client id nan; give every row a client")
        order = np.argsort(ids, kind="stable")
        ordered = ids[order]
        firsts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        return Rows(order, np.append(firsts, total), ordered[firsts])


def as_partition(clients: Clients, total: int) -> Partition:
    """What the user's `clients` means for `total` rows."""
    if isinstance(clients, Partition):
        return clients
    if isinstance(clients, (int, np.integer)):
        n = int(clients)
        _check_count(n)
        _check_enough(n, total)
        if total % n:
            raise ValueError(
                f"{total} rows do not split into {n} equal clients ({total % n} would be left over); "
                f"use ef.Shuffled({n}) or ef.InOrder({n}) to discard the rest, or give one client id per row"
            )
        return InOrder(n)
    return ByGroup(clients)


def _check_count(n: int) -> None:
    if n < 1:
        raise ValueError(f"clients = {n}; there must be at least 1")


def _check_enough(n: int, total: int) -> None:
    if total < n:
        raise ValueError(f"{n} clients but {total} rows: client {total} would have no row; use at most {total} clients")
