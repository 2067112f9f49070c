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

from errorfeedback.core import Lifted, Model, PerClient, Point, Sample
from errorfeedback.problems.base import Bounded, CurvatureBound, Normed, Prepared, Problem, Twice
from errorfeedback.problems.blocks.base import Fill
from errorfeedback.problems.glm import GLM, layout_for
from errorfeedback.problems.process_group import SINGLE, ProcessGroup
from errorfeedback.sparsity.support import Support, runs


@dataclass(frozen=True, eq=False, repr=False)
class Spread(Problem, Bounded, Twice, Normed, Prepared):
    """All clients; `part` has this process's own. Made by `clients.joined_problem`."""

    L_i: PerClient
    """Infinite where the loss has no bound on its curvature."""
    size: int
    """`work` of all processes together."""
    exchange: tuple[int, int]
    lower: float
    digest: str
    """Of every client's gradients at two points: what the rows are."""
    _part: Problem | None = field(default=None, init=False, repr=False)
    _processes: ProcessGroup = field(default=SINGLE, init=False, repr=False)
    _cuts: tuple[int, ...] = field(default=(), init=False, repr=False)

    def holding(self, part: Problem, processes: ProcessGroup) -> Spread:
        """With the rows of this process."""
        object.__setattr__(self, "_part", part)
        object.__setattr__(self, "_processes", processes)
        object.__setattr__(self, "_cuts", (0, *accumulate(processes.all(part.n))))
        return self

    def elsewhere(self, cuts: Sequence[int]) -> Spread:
        """As a server knows it that has no rows: `cuts` is where the clients of each place begin and the last one ends."""
        object.__setattr__(self, "_cuts", tuple(cuts))
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
        """f_i of every client; all processes must ask at the same time."""
        return PerClient(np.concatenate(self._processes.all(self.part.values(at))))

    def gradients(self, at: Point, out: Lifted, *, rows: Sample | None = None, values: PerClient | None = None) -> None:
        """All gradients, lifted; all processes must ask at the same time."""
        mine = Lifted(np.empty(self.part.support.size, dtype=self.dtype))
        losses = PerClient(np.empty(self.part.n))
        self.part.gradients(at, mine, rows=rows, values=losses)
        grads, losses_of_all = (np.concatenate(each) for each in zip(*self._processes.all((mine, losses)), strict=True))
        out[:] = grads
        if values is not None:
            values[:] = losses_of_all

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
        return isinstance(self.part, Twice) and self.part.bends

    def hessians(self, at: Point, out: Lifted) -> None:
        raise ValueError("the rows of this problem lie on several ranks; every rank has the Hessians of its own clients")

    @property
    def hessian_units(self) -> Model:
        assert isinstance(self.part, Twice), "who asks has looked whether it bends"
        return self.part.hessian_units

    def curvature(self) -> CurvatureBound:
        raise ValueError(
            "the rows of this problem lie on several ranks, and what was asked for needs all of them; use ef.Automatic(), "
            "or a rule that needs no more than the clients' own L_i (InverseL, EF21Standard, RareFeatures, Weighted)"
        )

    def __str__(self) -> str:
        s = self.support
        return f"n = {self.n} clients on {len(self.cuts) - 1} ranks, d = {self.d} features, c = {s.c}, r = {s.r}"


def shard_of_all(part: GLM, processes: ProcessGroup) -> GLM:
    """A process's clients as a shard of the problem of all: features, layout and weights are those of all processes."""
    q, owned = part.loss.outputs, part.support.by_feature
    everyone = processes.all((part.width, part.columns[::q] // q, part.fill, part.weight_sums))
    kinds = sorted(set(processes.all(f"{part.loss} with {part.regularizer} in {part.dtype}")))
    if len(kinds) > 1:
        raise ValueError(f"the ranks' rows are for {kinds[0]} and for {kinds[-1]}; they must be for the same")
    widths = sorted({width for width, *_ in everyone})
    if len(widths) > 1:
        raise ValueError(f"the ranks' rows have {widths[0]} and {widths[-1]} columns; they must have the same")
    columns = np.unique(np.concatenate([theirs for _, theirs, _, _ in everyone]))
    number = np.searchsorted(columns, part.columns[::q] // q).astype(np.int32)
    support = joined_support(number[owned.indices], owned.sizes, len(columns), processes).times(q)
    sums = np.concatenate([theirs for *_, theirs in everyone])
    return replace(
        part,
        support=support.shard(*own(part.n, processes)),
        columns=runs(columns, q),
        A=sparse.csr_array((part.A.data, number[part.A.indices], part.A.indptr), shape=(part.A.shape[0], len(columns))),
        layout=layout_for(Fill.of_all([fill for _, _, fill, _ in everyone])),
        weight_sum=float(sums.sum()),
    )


def joined_support(indices: NDArray[Any], sizes: NDArray[Any], d: int, processes: ProcessGroup) -> Support:
    """Who owns which feature, over all processes."""
    everyone = processes.all((sizes, indices))
    every = [np.concatenate(each) for each in zip(*everyone, strict=True)]
    return Support(indptr=np.concatenate([[0], np.cumsum(every[0])]), indices=every[1], d=d)


def own(n: int, processes: ProcessGroup) -> tuple[int, int]:
    """The numbers of this process's clients."""
    ends = [0, *accumulate(processes.all(n))]
    return ends[processes.rank], ends[processes.rank + 1]
