"""What is minimised: f(x) = (1/n) sum_i f_i(x), and what a theorem may know about its curvature."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from errorfeedback.core import Integers, Lifted, Model, PerClient, PerRow
from errorfeedback.notebook import table
from errorfeedback.sparsity.support import Support

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Curvature:
    """Upper bounds on the Hessians: H_i = A_i' diag(w) A_i + diagonal * I on J_i, for the rows A_i of client i."""

    A: sparse.csr_array
    """(rows, d), the rows of a client together."""
    lifted: sparse.csr_array
    """(rows, sum |J_i|): the same entries at their lifted positions."""
    weights: PerRow
    rows: Integers
    """(n + 1,): client i has the rows rows[i]:rows[i+1]."""
    diagonal: float
    quadratic: bool
    """The Hessians of the rows' part are constant, so that statements about H_i are exact."""
    convex: bool
    """Every f_i is convex (the rows' part always is)."""


@dataclass(frozen=True, eq=False, repr=False)
class Problem(ABC):
    """n clients, each with a smooth f_i that depends on the features J_i only.

    Vectors x have one entry per *active* feature (`d`); the functions that take x also accept one with an entry
    per column of the data (`width`), in which columns that no client has are ignored.
    """

    support: Support
    columns: Integers
    """(d,): the column of the data that each active feature came from."""
    width: int
    dtype: np.dtype[Any]
    """The precision of data, memory and messages."""
    _memo: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def n(self) -> int:
        return self.support.n

    @property
    def d(self) -> int:
        """Active features: those that some client has."""
        return self.support.d

    @property
    def dropped_features(self) -> int:
        """Columns of the data that no client has; they stay at their start."""
        return self.width - self.d

    def restrict(self, x: Model) -> Model:
        """The active entries of x."""
        x = np.ascontiguousarray(x, dtype=self.dtype)
        if x.shape == (self.d,):
            return x
        if x.shape == (self.width,):
            return x[self.columns]
        raise ValueError(f"x has shape {x.shape}; this problem takes ({self.width},), one entry per column of the data")

    def extend(self, x: Model, start: Model) -> Model:
        """x with one entry per column of the data; columns that no client has come from `start`."""
        out = np.array(start, dtype=self.dtype)
        out[self.columns] = x
        return out

    def value(self, x: Model) -> float:
        """f(x)."""
        return float(np.mean(self.values(x)))

    def gradient(self, x: Model) -> Model:
        """The gradient of f, one entry per active feature."""
        return self.support.scatter(self.gradients(x)) / self.n

    @abstractmethod
    def values(self, x: Model) -> PerClient:
        """f_i(x) of every client."""

    @abstractmethod
    def gradients(
        self, x: Model, out: Lifted | None = None, values: PerClient | None = None, looked: bool = False
    ) -> Lifted:
        """The gradients of all f_i, lifted; written to `out` where one is given. `values` gets the f_i in the same pass.
        `looked`: what `look` said of this x."""

    def look(self, x: Model, work: Lifted) -> bool:
        """Read x ahead of `gradients`, if it is so long that shards had better read it one right after the other, and do the
        rest afterwards; whether that was done. `work` is scratch."""
        return False

    @property
    @abstractmethod
    def work(self) -> int:
        """How many numbers of data and memory a round goes through."""

    @abstractmethod
    def shard(self, lo: int, hi: int) -> Problem:
        """The clients lo, ..., hi - 1 as a problem of their own."""

    @abstractmethod
    def curvature(self) -> Curvature:
        """What bounds the Hessians, or an error that says why nothing does."""

    @property
    def cuts(self) -> list[int] | None:
        """0, ..., n: which clients' rows lie on which rank, where they lie on several."""
        return None

    @property
    def norms(self) -> PerClient | None:
        """L_i of every client, where the rows to compute them from are not all here."""
        return None

    @property
    def setup_bits(self) -> tuple[int, int]:
        """What crossed the wire up and down before round 0, all clients together."""
        return 0, 0

    @property
    def lower_bound(self) -> float:
        """A value that f never goes below (Assumption 3): all losses here are non-negative."""
        return 0.0

    def __str__(self) -> str:
        return f"n = {self.n} clients, d = {self.d} features, c = {self.support.c}, r = {self.support.r}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def _repr_html_(self) -> str:
        rows = [
            ("clients (n)", self.n),
            ("features (d)", self.d),
            ("clients that share a feature, at most (c)", int(self.support.c)),
            ("features of a client, at most (r)", int(self.support.r)),
            ("columns of the data", self.width),
            ("numbers", self.dtype),
        ]
        return table(str(self), rows)

    def memo(self, make: Callable[[Problem], T]) -> T:
        """make(self), computed once."""
        if make not in self._memo:
            self._memo[make] = make(self)
        return self._memo[make]
