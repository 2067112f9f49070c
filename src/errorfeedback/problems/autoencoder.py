"""The linear auto-encoder of section 3.1's task (Szlendak et al. 2022): f_i(D, E) = (1/m) sum_rows ||D E a - a||^2.

x = (D, E): D is (width, code), E is (code, width), both flattened by rows. Every client depends on all of x, so the
support is dense. f is not globally smooth: no theorem gives a step size.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from errorfeedback.core import Floats, Integers, Lifted, Model, PerClient, Point, Sample, precision
from errorfeedback.keyed import sampled_rows
from errorfeedback.problems.base import Problem
from errorfeedback.problems.partition import Clients, as_partition
from errorfeedback.sparsity.support import full_support


@dataclass(frozen=True, eq=False, repr=False)
class Autoencoder(Problem):
    """Made by `autoencoder`."""

    data: Floats
    """(rows, features), the rows of a client together."""
    rows: Integers
    code: int
    discarded_rows: int = 0

    def split(self, x: Model) -> tuple[Floats, Floats]:
        """D and E."""
        features = self.data.shape[1]
        D, E = np.split(x, 2)
        return D.reshape(features, self.code), E.reshape(self.code, features)

    def values(self, at: Point) -> PerClient:
        return PerClient(np.array([_mean_square((a @ E.T) @ D.T - a) for a, D, E in self._clients(at)]))

    def gradients(self, at: Point, out: Lifted, *, rows: Sample | None = None, values: PerClient | None = None) -> None:
        parts = out.reshape(self.n, 2, self.d // 2)
        for i, (a, D, E) in enumerate(self._clients(at, rows)):
            codes = a @ E.T
            residual = codes @ D.T - a
            if values is not None:
                values[i] = _mean_square(residual)
            residual *= 2.0 / len(a)
            parts[i, 0] = (residual.T @ codes).ravel()  # f's derivative in D
            parts[i, 1] = ((residual @ D).T @ a).ravel()  # and in E

    def _clients(self, at: Point, rows: Sample | None = None) -> Iterator[tuple[Floats, Floats, Floats]]:
        """Every client's rows, D and E."""
        chosen, ends = (None, self.rows) if rows is None else sampled_rows(rows, self.rows, self.support.first)
        for i, (lo, hi) in enumerate(pairwise(ends)):
            x = at.shared if at.shared is not None else at.on(self.support.gather)[i * self.d : (i + 1) * self.d]
            yield self.data[lo:hi] if chosen is None else self.data[chosen[lo:hi]], *self.split(Model(x))

    @property
    def samples(self) -> bool:
        return True

    @property
    def work(self) -> int:
        return self.data.size + self.support.size

    def shard(self, lo: int, hi: int) -> Autoencoder:
        a, b = self.rows[lo], self.rows[hi]
        return Autoencoder(
            support=self.support.shard(lo, hi),
            columns=self.columns,
            width=self.width,
            dtype=self.dtype,
            data=self.data[a:b],
            rows=self.rows[lo : hi + 1] - a,
            code=self.code,
            discarded_rows=self.discarded_rows,
        )

    @property
    def lower_bound(self) -> float:
        return 0.0

    def __str__(self) -> str:
        return (
            f"linear auto-encoder: n = {self.n} clients, {len(self.data)} rows of {self.data.shape[1]}, "
            f"code of {self.code}, d = {self.d}; {self.discarded_rows} rows discarded by the even split"
        )


def autoencoder(A: ArrayLike, clients: Clients, *, code: int, dtype: DTypeLike = np.float64) -> Autoencoder:
    """The auto-encoder with a `code` of that many numbers over the rows of `A`; `clients` and `dtype` as in `glm`.

    >>> autoencoder(np.eye(4), clients=2, code=1).value(np.zeros(8))
    1.0
    """
    data = np.ascontiguousarray(A, dtype=precision(dtype))
    if data.ndim != 2 or 0 in data.shape:
        raise ValueError(f"A has shape {data.shape}; it needs rows and columns, (rows, features)")
    if not np.isfinite(data).all():
        row, column = np.argwhere(~np.isfinite(data))[0]
        raise ValueError(f"A[{row}, {column}] = {data[row, column]}; every entry must be finite")
    if not 1 <= code <= data.shape[1]:
        raise ValueError(f"code = {code}; it must be from 1 to the {data.shape[1]} columns of A")
    dealt = as_partition(clients, len(data)).rows(len(data))
    d = 2 * data.shape[1] * code
    return Autoencoder(
        support=full_support(len(dealt.names), d),
        columns=np.arange(d),
        width=d,
        dtype=data.dtype,
        data=data[dealt.order],
        rows=dealt.indptr,
        code=code,
        discarded_rows=dealt.discarded,
    )


def _mean_square(residual: Floats) -> float:
    """The mean over rows of ||row||^2."""
    return float(np.square(residual, dtype=np.float64).sum()) / len(residual)
