"""What is minimised: f(x) = (1/n) sum_i f_i(x). A problem is an oracle of four members, `support`, `gradients`, `values` and
`shard`; what else can be known about it is a capability (`Bounded`, `Normed`, `Prepared`, `ReadsAhead`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from errorfeedback.core import Integers, Lifted, Model, PerClient, PerColumn, PerRow, Point, Round, RowMemory, Sample
from errorfeedback.notebook import table
from errorfeedback.sparsity.support import Support

T = TypeVar("T")


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Problem(ABC):
    """n clients, each with a smooth f_i that depends on the features J_i only.

    Vectors x have one entry per *active* feature (`d`); `value`, `gradient`, `gradients_at` and `values_at` also accept one
    with an entry per column of the data (`width`), in which columns that no client has are ignored.
    """

    support: Support
    """Who owns which feature."""
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float64))
    """The precision of data, memory and messages."""
    columns: Integers = field(default=None)  # type: ignore[arg-type]
    """(d,): the column of the data that each active feature came from; by default its own number."""
    width: int = 0
    """Columns of the data; by default those that are active."""
    _memo: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.columns is None:
            object.__setattr__(self, "columns", np.arange(self.support.d))
            object.__setattr__(self, "width", self.support.d)

    @abstractmethod
    def gradients(self, at: Point, out: Lifted, *, rows: Sample | None = None, values: PerClient | None = None) -> None:
        """out = the gradients of all f_i where the clients stand, lifted; `values` gets the f_i in the same pass. Over a
        sample of the rows they are unbiased estimates of both."""

    @abstractmethod
    def values(self, at: Point) -> PerClient:
        """f_i of every client where it stands."""

    @abstractmethod
    def shard(self, lo: int, hi: int) -> Problem:
        """The clients lo, ..., hi - 1 as a problem of their own."""

    @property
    def lower_bound(self) -> float:
        """A value that f never goes below (Assumption 3); minus infinity where none is known."""
        return -inf

    @property
    def samples(self) -> bool:
        """Whether `gradients` knows what to do with a sample of the rows."""
        return False

    @property
    def x0(self) -> PerColumn:
        """Where a run starts unless it is told otherwise: one entry per column of the data."""
        return np.zeros(self.width)

    @property
    def work(self) -> int:
        """How many numbers of data and memory a round goes through: an engine shares it out."""
        return self.support.size

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

    def restrict(self, x: Model | PerColumn) -> Model:
        """The active entries of x."""
        x = np.ascontiguousarray(x, dtype=self.dtype)
        if x.shape == (self.d,):
            return Model(x)
        if x.shape == (self.width,):
            return Model(x[self.columns])
        raise ValueError(f"x has shape {x.shape}; this problem takes ({self.width},), one entry per column of the data")

    def extend(self, x: Model, start: PerColumn) -> PerColumn:
        """x with one entry per column of the data; columns that no client has come from `start`."""
        out = np.array(start, dtype=self.dtype)
        out[self.columns] = x
        return out

    def values_at(self, x: Model | PerColumn) -> PerClient:
        """f_i(x) of every client."""
        return self.values(Point(self.restrict(x)))

    def gradients_at(self, x: Model | PerColumn) -> Lifted:
        """The gradients of all f_i at x, lifted."""
        out = Lifted(np.empty(self.support.size, dtype=self.dtype))
        self.gradients(Point(self.restrict(x)), out)
        return out

    def value(self, x: Model | PerColumn) -> float:
        """f(x)."""
        return float(np.mean(self.values_at(x)))

    def gradient(self, x: Model | PerColumn) -> Model:
        """The gradient of f, one entry per active feature."""
        return Model(self.support.scatter(self.gradients_at(x)) / self.n)

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


@dataclass(frozen=True, eq=False)
class CurvatureBound:
    """Upper bounds on the Hessians: H_i = A_i' diag(w) A_i + diagonal * I on J_i, for the rows A_i of client i.

    A model of q outputs has that block q times, H_i = (A_i' diag(w) A_i) kron I_q + diagonal * I: every norm and eigenvalue
    is that of one block, so A is kept once, and its columns are those of `support.by_feature`.
    """

    A: sparse.csr_array
    """(rows, features), the rows of a client together."""
    lifted: sparse.csr_array
    """(rows, sum of the clients' features): the same entries at their lifted positions."""
    weights: PerRow
    rows: Integers
    """(n + 1,): client i has the rows rows[i]:rows[i+1]."""
    diagonal: float
    quadratic: bool
    """The Hessians of the rows' part are constant, so that statements about H_i are exact."""
    convex: bool
    """Every f_i is convex."""
    outputs: int = 1
    """q."""
    attained: bool = True
    """At one point the Hessians are the bound, so that their norms are the constants themselves."""


class Bounded(ABC):
    """A problem whose Hessians have a known bound: what theorems, scaling and first guesses ask for."""

    @abstractmethod
    def curvature(self) -> CurvatureBound:
        """The bound, or an error that says why there is none."""

    @property
    def bounded(self) -> bool:
        """Whether there is one, on the Hessians or on their norms L_i alone."""
        return True

    def typical_curvature(self) -> CurvatureBound:
        """What features are brought to like size by: the bound, or, where there is none, the Hessians at the zero model. No
        theorem hears of it."""
        return self.curvature()


class Twice(ABC):
    """A problem whose Hessians can be computed: what directions with a curvature of their own ask clients for."""

    @property
    @abstractmethod
    def bends(self) -> bool:
        """Whether they can: a loss may have no second derivative that anybody wrote down."""

    @abstractmethod
    def hessians(self, at: Point, out: Lifted, above: bool = False) -> None:
        """out = the upper triangles of all f_i's Hessians where the clients stand (`sparsity.pairs`), each with its entry
        (j, k) times u_j u_k of `hessian_units`; `above`: of quadratics that touch f_i there and are nowhere below it."""

    @abstractmethod
    def hessian_times(self, at: Point, v: Lifted) -> Lifted:
        """Every client's Hessian, where it stands, times its part of v; in no units."""

    @property
    def hessian_units(self) -> Model:
        """(d,): u, which brings entries to like size."""
        return Model(np.ones(self.support.d))

    @property
    def hessian_rows(self) -> int:
        """How many rows all Hessians together are squares of: what says how good a mean over some clients is. 0: unknown."""
        return 0

    support: Support


class Dual(ABC):
    """A problem whose clients can ascend in the dual of f + (l2/2)||x||^2: one variable u_r per row."""

    @property
    @abstractmethod
    def has_dual(self) -> bool:
        """Whether they can: a loss may have no dual step that anybody wrote down."""

    @abstractmethod
    def no_duals(self) -> RowMemory:
        """u = 0, for which x = 0."""

    @abstractmethod
    def ascend(
        self, w: Lifted, duals: RowMemory, l2: float, sigma: float, epochs: int, ctx: Round
    ) -> tuple[Lifted, RowMemory]:
        """What `epochs` over each client's rows add to (1/l2) sum_r s_r u_r a_r, and their u (`losses.dual`); w is where x
        is."""


class Normed(ABC):
    """A problem of which only every client's L_i is known."""

    @property
    @abstractmethod
    def norms(self) -> PerClient:
        """L_i of every client."""

    @property
    def estimated(self) -> bool:
        """Whether they are guesses, of which no theorem speaks."""
        return False

    @property
    def norms_from(self) -> str:
        """How they are known."""
        return "bound (told by every client)"


class Prepared(ABC):
    """A problem that took an exchange with the clients before round 0."""

    @property
    @abstractmethod
    def setup_bits(self) -> tuple[int, int]:
        """What crossed the wire up and down, all clients together."""


class ReadsAhead(ABC):
    """A problem whose gradients take two passes, of which the first alone reads x: where x is so long that shards had better
    read it one right after the other, an engine lets them do that first."""

    @abstractmethod
    def read_ahead(self, x: Model, work: Lifted) -> bool:
        """The first pass, if that pays; whether it was done. `work` is scratch."""

    @abstractmethod
    def gradients_after_reading(self, x: Model, out: Lifted, values: PerClient | None) -> None:
        """The rest of `gradients` at that x."""


class Stretchable(ABC):
    """A problem that may have a scale of its variable in its data, in place of a product with it in every round."""

    @abstractmethod
    def stretched(self, scale: Model) -> Problem | None:
        """f(S z) as a function of z, with numbers of a feature that have the same scale; None where that does not pay."""


def as_bounded(problem: Problem) -> Bounded:
    """The problem, or an error that says what to do without a bound on its Hessians."""
    if not isinstance(problem, Bounded):
        raise ValueError(
            f"{type(problem).__name__} has no known bound on its curvature (no global smoothness constant), so no theorem "
            "gives it a step size; use ef.Constant(gamma) or ef.Automatic()"
        )
    return problem


def without_hessians(problem: Problem) -> str:
    """Why nobody can ask for its Hessians; empty where they can."""
    if isinstance(problem, Twice) and problem.bends:
        return ""
    kind = type(problem).__name__
    return f"it needs Hessians, and {kind} has none to tell (a linear model of one score without a penalty has)"


def curvature_of(problem: Problem) -> CurvatureBound:
    """What bounds the Hessians, or an error that says what to do without."""
    return as_bounded(problem).curvature()


def is_bounded(problem: Problem) -> bool:
    """Whether anything bounds its curvature."""
    return isinstance(problem, Bounded) and problem.bounded


def setup_bits(problem: Problem) -> tuple[int, int]:
    """What crossed the wire up and down before round 0, all clients together."""
    return problem.setup_bits if isinstance(problem, Prepared) else (0, 0)
