"""A quadratic penalty within f: every client has its part of R(x) = sum_j (l2_j / 2) x_j^2 on the features that it owns,

    f_i(x) + sum_{j in J_i} (w_j / 2) x_j^2,   w_j = l2_j n / |I_j|,   so that   (1/n) sum_i (...) = f(x) + R(x).

Z, c, r and the messages are those of f, and the curvature is H_i + diag(w) on J_i. For methods that know nothing of a
penalty that the server adds by itself (`ElasticNet`): those whose clients read the server's steps, or hear a direction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from errorfeedback.core import Integers, Lifted, Model, PerClient, PerColumn, Point, Sample
from errorfeedback.problems.base import CurvatureBound, Problem, setup_bits
from errorfeedback.problems.wrapped import Wrapped


@dataclass(frozen=True, eq=False, repr=False)
class Ridged(Wrapped):
    """The problem `inner` with a penalty. Made by `ridged`."""

    l2: Model
    """(d,)."""

    @cached_property
    def weights(self) -> Lifted:
        """w at every position."""
        s = self.support
        return Lifted((self.l2[s.indices] * (s.n_total / s.counts[s.indices])).astype(self.dtype))

    def values(self, at: Point) -> PerClient:
        return PerClient(self.inner.values(at) + self._penalties(at))

    def gradients(self, at: Point, out: Lifted, *, rows: Sample | None = None, values: PerClient | None = None) -> None:
        self.inner.gradients(at, out, rows=rows, values=values)
        out += self.weights * at.on(self.support.gather)
        if values is not None:
            values += self._penalties(at)

    def _penalties(self, at: Point) -> PerClient:
        return self.support.sums(Lifted(self.weights / 2 * at.on(self.support.gather) ** 2))

    def shard(self, lo: int, hi: int) -> Ridged:
        return _over(self.inner.shard(lo, hi), self.l2)

    @property
    def setup_bits(self) -> tuple[int, int]:
        return setup_bits(self.inner)

    def _changed(self, k: CurvatureBound) -> CurvatureBound:
        """One more row for every feature of a client: (w_j/2) x_j^2 is the square of a prediction."""
        s, first = self.support.by_feature, slice(None, None, k.outputs)
        unit = sparse.eye_array(s.size, format="csr")
        order = np.argsort(np.concatenate([_clients(k.rows), _clients(s.indptr)]), kind="stable")
        return replace(
            k,
            A=sparse.csr_array(sparse.vstack([k.A, _at(s.indices, s.d)], format="csr")[order]),
            lifted=sparse.csr_array(sparse.vstack([k.lifted, unit], format="csr")[order]),
            weights=np.concatenate([k.weights, self.weights[first]])[order],
            rows=k.rows + s.indptr,
        )

    def hessians(self, at: Point, out: Lifted, above: bool = False) -> None:
        self._bent.hessians(at, out, above)
        out[_diagonal(self.support.indptr)] += self.weights * self.support.gather(self.hessian_units) ** 2

    def hessian_times(self, at: Point, v: Lifted) -> Lifted:
        return Lifted(self._bent.hessian_times(at, v) + self.weights * v)

    @property
    def hessian_units(self) -> Model:
        return self._bent.hessian_units

    def __str__(self) -> str:
        return f"{self.inner}; with a quadratic penalty"


def ridged(problem: Problem, l2: float | PerColumn) -> Ridged:
    """The `problem` with (l2/2)||x||^2 within f; `l2`: one number, or one per column of the data.

    >>> import errorfeedback as ef
    >>> problem = ef.ridged(ef.synthetic(n=10, d=20, m=3, c=2), 0.1)
    >>> run = ef.solve(problem, ef.SCAFFOLD(), ef.ScaffoldStep(), rounds=100)
    >>> bool(run.history["f"][-1] < run.history["f"][0])
    True
    """
    return _over(problem, curvatures_of(problem, l2))


def curvatures_of(problem: Problem, l2: float | PerColumn) -> Model:
    """(d,): that of a quadratic penalty, for the active features."""
    weights = np.asarray(l2, dtype=np.float64)
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError(f"l2 = {l2}; a penalty must be finite and not negative")
    if weights.shape not in ((), (problem.width,)):
        raise ValueError(f"l2 has shape {weights.shape}; give one number, or one per column of the data, ({problem.width},)")
    return Model(np.broadcast_to(weights, (problem.width,))[problem.columns].astype(problem.dtype))


def _over(inner: Problem, l2: Model) -> Ridged:
    return Ridged(support=inner.support, columns=inner.columns, width=inner.width, dtype=inner.dtype, inner=inner, l2=l2)


def _clients(ends: Integers) -> Integers:
    """The client of every row, or of every position."""
    return np.repeat(np.arange(len(ends) - 1), np.diff(ends))


def _at(features: Integers, d: int) -> sparse.csr_array:
    """A row with a 1 at each of the features."""
    return sparse.csr_array((np.ones(len(features)), features, np.arange(len(features) + 1)), shape=(len(features), d))


def _diagonal(segments: Integers) -> Integers:
    """Where the diagonals are in upper triangles, one client's after the other's, row after row."""
    sizes = np.diff(segments)
    p, size = np.arange(segments[-1]) - np.repeat(segments[:-1], sizes), np.repeat(sizes, sizes)
    triangles = sizes * (sizes + 1) // 2
    return np.asarray(np.repeat(np.cumsum(triangles) - triangles, sizes) + p * size - p * (p - 1) // 2)
