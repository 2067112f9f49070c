"""A problem whose rows lie on several processes: each has those of its own clients, and nobody has all.

Every process knows who owns which feature, and every client's L_i; nothing else about the others' rows. What needs all rows
(L, L_plus by eigenvalues, spectral rules) is bounded from the L_i where a bound is known, and refused where none is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from errorfeedback.core import Lifted, Model, PerClient, Point, Round, RowMemory, Sample
from errorfeedback.problems.base import Bounded, CurvatureBound, Dual, Normed, Prepared, Problem, Twice
from errorfeedback.problems.blocks.base import Fill
from errorfeedback.problems.conversation import Conversation, Seat, check_alike
from errorfeedback.problems.glm import GLM, layout_for
from errorfeedback.sparsity.support import Support, counted, runs

ELSEWHERE = "the rows of this problem lie on several ranks"


@dataclass(frozen=True, eq=False, repr=False)
class Spread(Problem, Bounded, Twice, Dual, Normed, Prepared):
    """All clients; `part` has this process's own. Made by `clients.joined_problem`."""

    L_i: PerClient
    """Infinite where the loss has no bound on its curvature."""
    size: int
    """`work` of all processes together."""
    exchange: tuple[int, int]
    lower: float
    digest: str
    """Of every client's gradients at two points: what the rows are."""
    units: Model | None
    """The `hessian_units` of all places; None where their clients have no Hessians to tell."""
    rows: int
    """The `hessian_rows` of all places."""
    _part: Problem | None = field(default=None, init=False, repr=False)
    _cuts: tuple[int, ...] = field(default=(), init=False, repr=False)

    def lying(self, clients: Sequence[int], part: Problem | None = None) -> Spread:
        """With so many clients in every place, and the rows of this one; a server may have none."""
        object.__setattr__(self, "_cuts", (0, *accumulate(clients)))
        object.__setattr__(self, "_part", part)
        return self

    @property
    def part(self) -> Problem:
        """This process's own clients."""
        if self._part is None:
            raise ValueError(
                "the rows of this problem lay on several ranks and are not in the checkpoint: repeat the command that began "
                "the run, or give ef.resume the problem, made from its rows on every rank"
            )
        return self._part

    @property
    def cuts(self) -> list[int]:
        return list(self._cuts)

    @property
    def bounded(self) -> bool:
        return bool(np.isfinite(self.L_i).all())

    @property
    def norms(self) -> PerClient:
        if not self.bounded:
            raise ValueError(
                "the loss of this problem has no bound on its curvature, and what was asked for needs one; use ef.Armijo() "
                "or ef.Constant(gamma)"
            )
        return self.L_i

    @property
    def setup_bits(self) -> tuple[int, int]:
        return self.exchange

    @property
    def lower_bound(self) -> float:
        return self.lower

    @property
    def samples(self) -> bool:
        return True

    @property
    def work(self) -> int:
        return self.size

    def values(self, at: Point) -> PerClient:
        raise ValueError(f"{ELSEWHERE}; every rank has the losses of its own clients")

    def gradients(self, at: Point, out: Lifted, *, rows: Sample | None = None, values: PerClient | None = None) -> None:
        raise ValueError(f"{ELSEWHERE}; every rank has the gradients of its own clients")

    def shard(self, lo: int, hi: int) -> Problem:
        first = self.part.support.first
        if not first <= lo < hi <= first + self.part.n:
            raise ValueError(
                f"clients {lo} to {hi - 1} are not all here: this rank has {first} to {first + self.part.n - 1}; "
                "a problem that is spread over ranks needs engine=ef.MPI()"
            )
        return self.part if (lo, hi) == (first, first + self.part.n) else self.part.shard(lo - first, hi - first)

    @property
    def bends(self) -> bool:
        return self.units is not None

    def hessian_times(self, at: Point, v: Lifted) -> Lifted:
        raise ValueError(f"{ELSEWHERE}; every rank has the Hessians of its own clients")

    def hessians(self, at: Point, out: Lifted, above: bool = False) -> None:
        raise ValueError(f"{ELSEWHERE}; every rank has the Hessians of its own clients")

    @property
    def has_dual(self) -> bool:
        return self._part is None or (isinstance(self.part, Dual) and self.part.has_dual)

    def no_duals(self) -> RowMemory:
        raise ValueError(f"{ELSEWHERE}; every rank has the dual variables of its own clients")

    def ascend(
        self, w: Lifted, duals: RowMemory, l2: float, sigma: float, epochs: int, ctx: Round
    ) -> tuple[Lifted, RowMemory]:
        raise ValueError(f"{ELSEWHERE}; every rank has the dual variables of its own clients")

    @property
    def hessian_rows(self) -> int:
        return self.rows

    @property
    def hessian_units(self) -> Model:
        assert self.units is not None, "who asks has looked whether it bends"
        return self.units

    def curvature(self) -> CurvatureBound:
        raise ValueError(
            f"{ELSEWHERE}, and what was asked for needs all of them; use ef.Automatic(), "
            "or a rule that needs no more than the clients' own L_i (InverseL, EF21Standard, RareFeatures, Weighted)"
        )

    def __str__(self) -> str:
        s = self.support
        return f"n = {self.n} clients on {len(self.cuts) - 1} ranks, d = {self.d} features, c = {s.c}, r = {s.r}"


def shard_of_all(part: GLM, seat: Seat) -> Conversation[GLM]:
    """A place's clients as a shard of the problem of all: features, layout and weights are those of all places."""
    q, owned = part.loss.outputs, part.support.by_feature
    mine = part.columns[::q] // q
    kind = f"{part.loss} with {part.regularizer} in {part.dtype}"
    everyone = yield kind, part.width, mine[owned.indices], owned.sizes, part.fill, part.weight_sums
    kinds, widths, owns, sizes, fills, sums = zip(*everyone, strict=True)
    check_alike(kinds, "loss")
    check_alike(widths, "number of columns")
    for place, (counts, features) in enumerate(zip(sizes, owns, strict=True)):
        check_owned(place, counts, features, part.width // q)
    every = np.concatenate(owns)
    columns = np.flatnonzero(counted(every, part.width // q))
    number = np.zeros(part.width // q, dtype=np.int32)
    number[columns] = np.arange(len(columns), dtype=np.int32)
    support = joined_support(sizes, number[every], len(columns)).times(q)
    first = sum(map(len, sizes[: seat.number]))
    return replace(
        part,
        support=support.shard(first, first + part.n),
        columns=runs(columns, q),
        A=sparse.csr_array(
            (part.A.data, number[mine][part.A.indices], part.A.indptr), shape=(part.A.shape[0], len(columns))
        ),
        layout=layout_for(Fill.of_all(fills)),
        weight_sum=float(np.concatenate(sums).sum()),
    )


def joined_support(sizes: Sequence[NDArray[Any]], indices: NDArray[Any], d: int) -> Support:
    """Who owns which feature, over all places."""
    return Support(indptr=np.concatenate([[0], np.cumsum(np.concatenate(sizes))]), indices=indices, d=d)


def check_owned(place: int, sizes: Any, features: Any, d: int) -> None:
    """Refuse what no place can say of its clients' features: every index is checked before a kernel follows it.

    >>> check_owned(2, np.array([2, 1]), np.array([0, 3, 9]), 9)
    Traceback (most recent call last):
        ...
    ValueError: place 2 names features that nobody can own: there are 9, from 0 on, each named once
    """
    whole = all(isinstance(each, np.ndarray) and each.ndim == 1 and each.dtype.kind in "iu" for each in (sizes, features))
    if not whole or not len(sizes) or sizes.min() < 1 or int(sizes.sum()) != len(features):
        raise ValueError(f"place {place} does not say how many features each of its clients owns")
    rises = np.diff(features, prepend=-1) > 0
    rises[np.cumsum(sizes)[:-1]] = True  # another client begins
    if features.min() < 0 or features.max() >= d or not rises.all():
        raise ValueError(f"place {place} names features that nobody can own: there are {d}, from 0 on, each named once")
