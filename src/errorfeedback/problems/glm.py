"""Generalised linear models: f_i(x) = (1/m_i) sum_rows loss(<a, x>, b) + phi_i(x) (example 1, section 6).

gradients: z = A x, then A_i' loss'(z) / m_i for every client at once. The rows are kept once as CSR (for the constants, and
to cut shards from) and once in the layout that fits them best (`blocks`), which is what a round reads.

Where the loss has q outputs (`softmax`: one per class), the model is a matrix X of features x q, row after row, and z = A X.
The rows are kept once all the same. To compressors, methods and wires, X is a vector of R^(q d), and a client that has a
feature has its q numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from errorfeedback.core import Integers, Lifted, Model, PerClient, PerRow, Point, Round, RowMemory, Sample
from errorfeedback.keyed import sampled_rows
from errorfeedback.problems.base import Bounded, CurvatureBound, Dual, Problem, ReadsAhead, Stretchable, Twice
from errorfeedback.problems.blocks.base import FAR, Blocks, Fill
from errorfeedback.problems.blocks.csr import CSR
from errorfeedback.problems.blocks.dense import Dense
from errorfeedback.problems.blocks.many_outputs import ManyOutputs
from errorfeedback.problems.blocks.uniform import EqualEntries
from errorfeedback.problems.hessians import add_rows
from errorfeedback.problems.losses.base import Loss
from errorfeedback.problems.losses.dual import DualStep
from errorfeedback.problems.regularizers import Regularizer

LAYOUTS: tuple[type[Blocks], ...] = (ManyOutputs, Dense, EqualEntries, CSR)
"""The first that fits is taken."""


@dataclass(frozen=True, eq=False, repr=False)
class GLM(Problem, Bounded, Twice, Dual, ReadsAhead, Stretchable):
    """A linear model trained across clients. Made by `glm` and the constructors beside it (`linear_models`)."""

    A: sparse.csr_array
    """(rows, features), the rows of a client together, active columns only."""
    lifted: sparse.csr_array
    """(rows, sum of the clients' features): the same entries at their lifted positions (of `support.by_feature`)."""
    target: PerRow
    rows: Integers
    """(n + 1,): client i has the rows rows[i]:rows[i+1]."""
    loss: Loss
    regularizer: Regularizer
    layout: type[Blocks]
    """How the rows are stored for a round: one choice for all clients, so that shards sum in the same order."""
    names: NDArray[Any]
    """What the user calls each client."""
    discarded_rows: int = 0
    classes: tuple[Any, ...] | None = None
    """The two labels that became -1 and +1, or those that were numbered from 0."""
    intercept: bool = False
    sample_weight: PerRow | None = None
    weight_sum: float = 0.0
    """The sum of all clients' sample weights."""

    @cached_property
    def shares(self) -> PerRow:
        """(rows,): f_i = sum_rows share * loss; 1/m_i where there are no sample weights."""
        if self.sample_weight is not None:
            return (self.support.n_total * self.sample_weight / self.weight_sum).astype(self.dtype)
        m = np.diff(self.rows)
        return np.repeat((1.0 / m).astype(self.dtype), m)

    @property
    def weight_sums(self) -> PerClient:
        """The sum of every client's sample weights."""
        return PerClient(np.zeros(self.n) if self.sample_weight is None else per_client(self.sample_weight, self.rows))

    @property
    def fill(self) -> Fill:
        """What the choice of the layout looked at."""
        return Fill.of(self.lifted, self.support, self.rows)

    @cached_property
    def blocks(self) -> Blocks:
        return self.layout.make(self.lifted, self.support, self.rows)

    @cached_property
    def separate_blocks(self) -> Blocks:
        """For clients that each stand at a point of their own."""
        return self.blocks.separate()

    def values(self, at: Point) -> PerClient:
        blocks, x = self._standing(at)
        z = blocks.predictions
        blocks.forward(x, z, Lifted(np.empty(self.support.size, dtype=self.dtype)))
        losses = self._over_clients(self.loss.values(z, self.target))
        if not self.regularizer.curvature:
            return losses
        return PerClient(losses + self.support.sums(self.regularizer.values(at.on(self.support.gather))))

    def _standing(self, at: Point) -> tuple[Blocks, Model]:
        """The rows, and what their kernels read x from: clients with points of their own share no feature of a longer x."""
        if at.shared is not None:
            return self.blocks, at.shared if self._ready(at.shared) else self.restrict(at.shared)
        return self.separate_blocks, Model(at.on(self.support.gather))

    def _over_clients(self, losses: PerRow) -> PerClient:
        if self.sample_weight is not None:
            return PerClient(np.add.reduceat(losses * self.shares, self.rows[:-1], dtype=np.float64))
        return PerClient(np.add.reduceat(losses, self.rows[:-1], dtype=np.float64) / np.diff(self.rows))

    def _ready(self, x: Model) -> bool:
        """Whether kernels can read x as it is."""
        return isinstance(x, np.ndarray) and x.shape == (self.support.d,) and x.dtype == self.dtype and x.flags.c_contiguous

    def gradients(self, at: Point, out: Lifted, *, rows: Sample | None = None, values: PerClient | None = None) -> None:
        if rows is not None:
            self._sampled(at, out, rows, values)
            return
        blocks, x = self.blocks, at.shared
        if x is None or not self._ready(x):
            blocks, x = self._standing(at)
        losses = None if values is None else np.empty(len(self.target), dtype=self.dtype)
        self.loss.gradients(blocks, x, self.target, self.shares, out, losses)
        if values is not None or self.regularizer.curvature:
            self._finish(at, out, losses, values)

    def read_ahead(self, x: Model, work: Lifted) -> bool:
        if not self.blocks.apart or x.nbytes < FAR or not self._ready(x):
            return False  # `gradients` knows what to do with another x
        self.blocks.forward(x, self.blocks.predictions, work)
        return True

    def gradients_after_reading(self, x: Model, out: Lifted, values: PerClient | None) -> None:
        losses = None if values is None else np.empty(len(self.target), dtype=self.dtype)
        self.loss.back(self.blocks, self.target, self.shares, out, losses)
        self._finish(Point(x), out, losses, values)

    def _finish(self, at: Point, out: Lifted, losses: PerRow | None, values: PerClient | None) -> None:
        """Sum up the losses, and add the penalty."""
        if values is not None and losses is not None:
            values[:] = self._over_clients(losses)
        if self.regularizer.curvature:
            own = at.on(self.support.gather)
            out += self.regularizer.slopes(own)
            if values is not None:
                values += self.support.sums(self.regularizer.values(own))

    def _sampled(self, at: Point, out: Lifted, rows: Sample, values: PerClient | None) -> None:
        """The same over some rows of every client, which stand for all: share m_i / (rows in the sample)."""
        chosen, ends = sampled_rows(rows, self.rows, self.support.first)
        A, b = self.lifted[chosen], self.target[chosen]
        counts = np.diff(ends)
        shares = self.shares[chosen] * np.repeat((np.diff(self.rows) / counts).astype(self.dtype), counts)
        own = at.on(self.support.gather)
        z = A @ (own if self.loss.outputs == 1 else own.reshape(-1, self.loss.outputs))
        if values is not None:
            values[:] = np.add.reduceat(self.loss.values(z, b) * shares, ends[:-1], dtype=np.float64)
        self.loss.slopes(z, b, shares, z)
        out[:] = (A.T @ z).ravel()
        self._finish(at, out, None, values)

    @property
    def lower_bound(self) -> float:
        return float(np.mean(self._over_clients(self.loss.floor(self.target))))

    @property
    def samples(self) -> bool:
        return True

    @property
    def work(self) -> int:
        return int(self.A.nnz) + self.support.size

    def shard(self, lo: int, hi: int) -> GLM:
        a, b = self.rows[lo], self.rows[hi]
        support = self.support.shard(lo, hi)
        entries = slice(self.A.indptr[a], self.A.indptr[b])
        indptr = self.A.indptr[a : b + 1] - self.A.indptr[a]
        data = self.A.data[entries]
        owned = support.by_feature
        positions = self.lifted.indices[entries] - self.lifted.indices.dtype.type(self.support.by_feature.indptr[lo])
        return GLM(
            support=support,
            columns=self.columns,
            width=self.width,
            dtype=self.dtype,
            A=sparse.csr_array((data, self.A.indices[entries], indptr), shape=(b - a, owned.d)),
            lifted=sparse.csr_array((data, positions, indptr), shape=(b - a, owned.size)),
            target=self.target[a:b],
            rows=self.rows[lo : hi + 1] - a,
            loss=self.loss,
            regularizer=self.regularizer,
            layout=self.layout,
            names=self.names[lo:hi],
            discarded_rows=self.discarded_rows,
            classes=self.classes,
            intercept=self.intercept,
            sample_weight=None if self.sample_weight is None else self.sample_weight[a:b],
            weight_sum=self.weight_sum,
        )

    def stretched(self, scale: Model) -> GLM | None:
        if self.loss.outputs == 1 or self.regularizer.curvature:
            return None  # a copy of the rows is not worth it, or the penalty would need the scale too
        data = self.A.data * scale[:: self.loss.outputs][self.A.indices]
        A, lifted = (sparse.csr_array((data, each.indices, each.indptr), shape=each.shape) for each in (self.A, self.lifted))
        return replace(self, A=A, lifted=lifted)

    @property
    def bends(self) -> bool:
        known = self.loss.outputs == 1 and self.loss.bends(np.zeros(1), self.target[:1]) is not None
        return known and not self.regularizer.curvature

    def hessians(self, at: Point, out: Lifted, above: bool = False) -> None:
        A = self.lifted
        z = A @ at.on(self.support.gather)
        bends = self.loss.above(z, self.target) if above else self.loss.bends(z, self.target)
        assert bends is not None, "who asks has looked whether it bends"
        add_rows(A.data, A.indices, A.indptr, self.rows, self.support.indptr, bends * self.shares, out)

    @property
    def hessian_rows(self) -> int:
        return len(self.target)

    def hessian_times(self, at: Point, v: Lifted) -> Lifted:
        bends = self.loss.bends(self.lifted @ at.on(self.support.gather), self.target)
        assert bends is not None, "who asks has looked whether it bends"
        return Lifted((self.lifted.T @ (bends * self.shares * (self.lifted @ v))).astype(self.dtype, copy=False))

    @property
    def has_dual(self) -> bool:
        return isinstance(self.loss, DualStep) and not self.regularizer.curvature

    def no_duals(self) -> RowMemory:
        return RowMemory(np.zeros(len(self.target), dtype=self.dtype), np.diff(self.rows).astype(np.int64))

    def ascend(
        self, w: Lifted, duals: RowMemory, l2: float, sigma: float, epochs: int, ctx: Round
    ) -> tuple[Lifted, RowMemory]:
        if not np.array_equal(duals.counts, np.diff(self.rows)):
            raise ValueError("the dual variables are those of other rows")
        assert isinstance(self.loss, DualStep), "who asks has looked whether it has a dual"
        A, there, u = self.lifted, Lifted(w.copy()), duals.values.copy()
        weights = (sigma / (l2 * self.support.n_total)) * self.shares
        keys = (ctx.seed, ctx.t, self.support.first)
        self.loss.ascend((A.data, A.indices, A.indptr), self.rows, keys, epochs, weights, self.target, there, u)
        return Lifted((there - w) / sigma), RowMemory(u, duals.counts)

    @property
    def bounded(self) -> bool:
        return isfinite(self.loss.curvature)

    def curvature(self) -> CurvatureBound:
        return self._curvature(self.loss.curvature)

    def typical_curvature(self) -> CurvatureBound:
        return self._curvature(self.loss.typical)

    def _curvature(self, of_loss: float) -> CurvatureBound:
        if not isfinite(of_loss):
            raise ValueError(
                f"{type(self.loss).__name__} has no bound on its curvature, and what was asked for needs one; "
                "use ef.Armijo(), ef.Constant(gamma), or ef.Automatic()"
            )
        return CurvatureBound(
            A=self.A,
            lifted=self.lifted,
            weights=of_loss * self.shares,
            rows=self.rows,
            diagonal=self.regularizer.curvature,
            quadratic=self.loss.quadratic,
            convex=self.regularizer.convex and self.loss.convex,
            outputs=self.loss.outputs,
            attained=self.loss.attained,
        )

    def __str__(self) -> str:
        s = self.support
        notes = [
            f"{self.dropped_features} of {self.width} columns dropped: no client has them" * bool(self.dropped_features),
            f"{self.discarded_rows} rows discarded by the even split" * bool(self.discarded_rows),
        ]
        q, owned = self.loss.outputs, s.by_feature
        head = (
            f"{type(self.loss).__name__.lower()} loss: n = {self.n} clients, d = {self.d} "
            f"{'features' if q == 1 else f'numbers ({owned.d} features x {q} classes)'}, "
            f"{self.A.shape[0]} rows, {self.A.nnz} nonzeros ({self.layout.describe(s)}), c = {s.c}, r = {s.r}"
        )
        return "; ".join([head, *filter(None, notes)])


def layout_for(fill: Fill) -> type[Blocks]:
    """The first layout that fits."""
    return next(layout for layout in LAYOUTS if layout.fits(fill))


def per_client(w: PerRow, rows: Integers) -> PerClient:
    """The sums over the clients' rows."""
    return PerClient(np.add.reduceat(w, rows[:-1], dtype=np.float64))
