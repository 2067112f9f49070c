"""Features that one client alone has do not cross the wire while a model is trained (ours; for two blocks of variables it is
the variable projection of Golub and Pereyra 1973, for what users have in a federation the reconstruction of Singhal et al.
2021).

Nobody else has a say in the features O_i that only client i has (c_j = 1). So wherever the shared ones stand, it is at the
minimum over its own:

    f~_i(x) = min_w f_i(x, w) + (n/2) sum_{j in O_i} l2_j w_j^2,        w_i(x): where that is,
    grad f~_i(x) = grad_x f_i(x, w_i(x)),
    hess f~_i(x) = H_xx - H_xw V = (I, -V') H (I; -V) + n V' l2 V,    V = (H_ww + n l2)^-1 H_wx,

and min_x f~(x) + R(x) over the shared features is min f + R over all. f~ is convex where f is, curves nowhere more than f
does along the shared features, and f~ + R is no worse conditioned than f + R (docs/theory.md, section 29). What is told of
f~_i is the loss at (x, w_i(x)) as far as w_i is found, so it is never below what the model at the end has.
w_i(x) is found by Newton's method from w_i(0), so that it depends on x alone: every engine has the same bits, and a run that
goes on from a checkpoint. At the end every client says its w_i, once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from errorfeedback.core import Floats, Integers, Lifted, Model, PerClient, PerColumn, PerRow, Point, Sample
from errorfeedback.problems.base import Bounded, CurvatureBound, Problem, Twice
from errorfeedback.problems.glm import GLM, per_client
from errorfeedback.problems.local_fits import LocalFits
from errorfeedback.problems.ridged import curvatures_of
from errorfeedback.problems.schur import ClientRows, along, eliminated
from errorfeedback.sparsity.support import Support

STEPS, LEFT = 1000, 1e-10
"""The most Newton steps of a client's minimum, and what the last one may be expected to gain, as a share of f_i(0)."""


@dataclass(frozen=True, eq=False, repr=False)
class Reduced(Problem, Bounded, Twice):
    """f~ of the linear model `rows`. Made by `reduced`."""

    rows: GLM
    """With all features."""
    l2: Model
    """(rows.d,): the curvature of the penalty that the server would add."""
    with_hessians: bool = True
    """Whether these can be asked for: they take a row of |J_i| numbers for every row of client i."""
    weight_bits: int = 16
    """Of an own weight, when it is said."""

    @cached_property
    def own(self) -> NDArray[np.bool_]:
        """At which positions of the lifted space of `rows` a client is alone."""
        return self.rows.support.counts[self.rows.support.indices] == 1

    @cached_property
    def recluses(self) -> NDArray[np.bool_]:
        """(n,): who has features of its own."""
        return np.logical_or.reduceat(self.own, self.rows.support.indptr[:-1])

    @cached_property
    def shared_rows(self) -> sparse.csr_array:
        """(rows, positions of the shared features)."""
        return sparse.csr_array(self.rows.lifted[:, ~self.own])

    @cached_property
    def fits(self) -> LocalFits:
        """The recluses' problems on their own features."""
        rows, s = self.rows, self.rows.support
        sizes = np.add.reduceat(self.own.astype(np.int64), s.indptr[:-1])[self.recluses]
        support = Support(_ends(sizes), s.indices[self.own], s.d, counts=s.counts, n_total=s.n_total)
        lifted, ends = rows.lifted[self._theirs][:, self.own], _ends(np.diff(rows.rows)[self.recluses])
        target = rows.target[self._theirs]
        return LocalFits(replace(rows, support=support, lifted=sparse.csr_array(lifted), target=target, rows=ends))

    @cached_property
    def _theirs(self) -> NDArray[np.bool_]:
        """(rows,): those of the recluses."""
        return np.repeat(self.recluses, np.diff(self.rows.rows))

    @cached_property
    def _shares(self) -> PerRow:
        return self.rows.shares[self._theirs]

    @cached_property
    def _penalty(self) -> Lifted:
        """n l2 on the recluses' own features."""
        s = self.fits.rows.support
        return Lifted((s.n_total * self.l2[s.indices]).astype(self.dtype))

    @cached_property
    def _first(self) -> Lifted:
        """w(0)."""
        return self._minimum(Lifted(np.zeros_like(self._penalty)), 0.0)[0]

    def _minimum(self, start: Lifted, beside: PerRow | float) -> tuple[Lifted, PerRow]:
        """w where the shared features predict this much, and what all predict together."""
        fits, everybody = self.fits, np.ones(self.fits.rows.n, dtype=np.bool_)
        enough = PerClient(LEFT * fits.losses(self._shares, np.zeros_like(self._shares)))
        return fits.minima(self._shares, self._penalty, start, STEPS, enough, everybody, beside)

    def _solved(self, at: Point) -> tuple[PerRow, Lifted]:
        """What is predicted of every row where the clients' shared features stand, and w there."""
        z = self.shared_rows @ at.on(self.support.gather)
        if not self.recluses.any():
            return z, Lifted(np.empty(0))
        w, z[self._theirs] = self._minimum(self._first, z[self._theirs])
        return z, w

    def _losses(self, z: PerRow, w: Lifted) -> PerClient:
        rows = self.rows
        losses = per_client(rows.loss.values(z, rows.target) * rows.shares, rows.rows)
        if len(w):
            losses[self.recluses] += self.fits.rows.support.sums(Lifted(self._penalty / 2 * w**2))
        return losses

    def values(self, at: Point) -> PerClient:
        return self._losses(*self._solved(at))

    def gradients(self, at: Point, out: Lifted, *, rows: Sample | None = None, values: PerClient | None = None) -> None:
        if rows is not None:
            raise ValueError("a reduced problem has no gradients over some of the rows: minima over own features need all")
        z, w = self._solved(at)
        if values is not None:
            values[:] = self._losses(z, w)
        slopes = np.empty_like(z)
        self.rows.loss.slopes(z, self.rows.target, self.rows.shares, slopes)
        out[:] = self.shared_rows.T @ slopes

    def own_parts(self, x: Model | PerColumn) -> tuple[Integers, Floats, Integers]:
        """The columns of the recluses' own features, w(x), and how many each of them has."""
        if not self.recluses.any():
            return np.empty(0, dtype=np.int64), np.empty(0), np.empty(0, dtype=np.int64)
        s, w = self.fits.rows.support, self._solved(Point(self.restrict(x)))[1]
        return self.rows.columns[s.indices], w, s.sizes

    @property
    def bends(self) -> bool:
        return self.with_hessians and self.rows.bends

    @property
    def hessian_work(self) -> float:
        """How many products of two numbers Hessians take, about."""
        sizes, rows = self.support.sizes.astype(np.float64), np.diff(self.rows.rows)
        return float((self.recluses * rows * sizes**2).sum())

    @property
    def hessian_rows(self) -> int:
        return self.rows.hessian_rows

    def hessians(self, at: Point, out: Lifted, above: bool = False) -> None:
        """Never below the truth, however well V is found."""
        eliminated(self._shared, self._own, self._places, self._bends(at, above), self._penalty, out)

    def hessian_times(self, at: Point, v: Lifted) -> Lifted:
        weights, z = self._bends(at, False), self.shared_rows @ v
        for i in np.flatnonzero(self.recluses):
            mine = slice(self.rows.rows[i], self.rows.rows[i + 1])
            z[mine] = along(self._own, self._places[i], weights[mine], self._penalty, z[mine])
        return Lifted(self.shared_rows.T @ (weights * z))

    def _bends(self, at: Point, above: bool) -> PerRow:
        """The second derivatives of the losses, or of the parabolas above them."""
        z, rows = self._solved(at)[0], self.rows
        bends = rows.loss.above(z, rows.target) if above else rows.loss.bends(z, rows.target)
        assert bends is not None, "who asks has looked whether it bends"
        return bends * rows.shares

    @cached_property
    def _shared(self) -> ClientRows:
        return ClientRows.of(self.shared_rows, self.support, self.rows.rows)

    @cached_property
    def _own(self) -> ClientRows:
        """Of the recluses."""
        return ClientRows.of(self.fits.rows.lifted, self.fits.rows.support, self.fits.rows.rows)

    @cached_property
    def _places(self) -> Integers:
        """(n,): the number of a client among the recluses; -1 where it is none."""
        return np.where(self.recluses, np.cumsum(self.recluses) - 1, -1)

    @property
    def bounded(self) -> bool:
        return self.rows.bounded

    def curvature(self) -> CurvatureBound:
        return self._along_shared(self.rows.curvature())

    def typical_curvature(self) -> CurvatureBound:
        return self._along_shared(self.rows.typical_curvature())

    def _along_shared(self, k: CurvatureBound) -> CurvatureBound:
        """What it is for x alone: the minimum over w takes some of it away."""
        A = sparse.csr_array(k.A[:, self.rows.support.counts > 1])
        return replace(k, A=A, lifted=self.shared_rows, quadratic=False, attained=False)

    @property
    def lower_bound(self) -> float:
        return self.rows.lower_bound

    @property
    def work(self) -> int:
        return self.rows.work

    def shard(self, lo: int, hi: int) -> Reduced:
        part = _over(self.rows.shard(lo, hi), self.l2)
        return replace(part, with_hessians=self.with_hessians, weight_bits=self.weight_bits)

    def __str__(self) -> str:
        return f"{self.rows}; {int((self.rows.support.counts == 1).sum())} features that one client has are left to it"


def reduced(rows: GLM, l2: float | PerColumn) -> Reduced:
    """The linear model `rows` as a problem of the features that clients share, where each is at the minimum over its own,
    with (l2/2)||x||^2 on these; `l2`: one number, or one per column of the data. The server has the same for the others.

    >>> import errorfeedback as ef
    >>> A = [[1.0, 2.0, 0.0], [1.0, -1.0, 0.0], [1.0, 0.0, 1.0], [1.0, 0.0, 3.0]]
    >>> problem = ef.reduced(ef.least_squares(A, [1.0, 2.0, 3.0, 4.0], clients=2), 0.1)
    >>> problem.d, problem.columns.tolist()
    (1, [0])
    >>> [part.round(3).tolist() for part in problem.own_parts(np.array([1.0]))]
    [[1, 2], [-0.192, 1.078], [1, 1]]
    """
    if not isinstance(rows, GLM):
        raise ValueError(f"{type(rows).__name__} is no linear model of rows: reduce these first, and scale what comes of it")
    weights = curvatures_of(rows, l2)
    reason = irreducible(rows, weights)
    if reason:
        raise ValueError(f"own features cannot be left to their clients: {reason}")
    return _over(rows, weights)


def irreducible(rows: GLM, l2: Model) -> str:
    """Why own features cannot be left to these clients; empty where they can. `l2`: (d,)."""
    s, bad = rows.support, np.flatnonzero((rows.support.counts == 1) & ~(l2 > 0))
    if not (rows.bends and rows.bounded):
        return "the loss has no second derivative with a bound, or more than one output"
    if len(bad):
        return f"column {rows.columns[bad[0]]} belongs to one client and has no penalty: there may be no minimum"
    without = np.flatnonzero(np.maximum.reduceat(s.counts[s.indices], s.indptr[:-1]) == 1)
    if len(without):
        return f"client {s.first + without[0]} shares no feature with anybody; an intercept is one"
    return ""


def _over(rows: GLM, l2: Model) -> Reduced:
    s, shared = rows.support, rows.support.counts > 1
    number, keep = (np.cumsum(shared) - 1).astype(s.indices.dtype), shared[s.indices]
    support = Support(
        indptr=_ends(np.add.reduceat(keep.astype(np.int64), s.indptr[:-1])),
        indices=number[s.indices[keep]],
        d=int(shared.sum()),
        first=s.first,
        counts=s.counts[shared],
        earlier=number[s.earlier[shared[s.earlier]]],
        n_total=s.n_total,
    )
    return Reduced(support=support, dtype=rows.dtype, columns=rows.columns[shared], width=rows.width, rows=rows, l2=l2)


def _ends(sizes: Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(sizes)])
