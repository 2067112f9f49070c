"""What everybody in the race minimises, and who has to know what of it.

    f(x) = (1/m) sum_rows log(1 + exp(-y <a, x>)) + (l2/2) ||x||^2

over all rows of all clients, with the intercept a feature like any other (the last column, penalised too): one objective
for all. Client i has the rows rows[i]:rows[i+1] and knows the features J_i that occur in them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import expit

Vector = NDArray[np.float64]
Whole = NDArray[np.int64]
L2 = 1e-4
CURVATURE = 0.25
"""The largest second derivative of the logistic loss."""
EXACT = 1e-10
"""How well f* is known, as a share of itself."""
DENSE = 1000
"""Up to so many features a Newton step is solved by a factorisation."""


class _Solved(Exception):  # noqa: N818  (nothing went wrong)
    """f at a point whose gradient is small enough."""


@dataclass(frozen=True, eq=False)
class Objective:
    """Made by `objective`."""

    A: sparse.csr_array
    """(rows, d): the rows of a client together, a column of ones last, no empty column."""
    y: Vector
    """-1 or +1."""
    rows: Whole
    """(n + 1,)."""
    l2: float = L2
    solved: float | None = None
    """f*, where it is known."""

    @property
    def n(self) -> int:
        return len(self.rows) - 1

    @property
    def m(self) -> int:
        return self.A.shape[0]

    @property
    def d(self) -> int:
        return self.A.shape[1]

    @cached_property
    def transposed(self) -> sparse.csr_array:
        return sparse.csr_array(self.A.T.tocsr())

    @cached_property
    def clients(self) -> Whole:
        """The client of every row."""
        return np.repeat(np.arange(self.n), np.diff(self.rows))

    @cached_property
    def owned(self) -> sparse.csr_array:
        """(n, d): 1 where client i has feature j."""
        who = np.repeat(self.clients, np.diff(self.A.indptr))
        found = sparse.csr_array((np.ones(self.A.nnz), (who, self.A.indices)), shape=(self.n, self.d))
        found.sum_duplicates()
        found.data[:] = 1.0
        return found

    @cached_property
    def sizes(self) -> Whole:
        """|J_i|."""
        return np.diff(self.owned.indptr).astype(np.int64)

    @cached_property
    def owners(self) -> Whole:
        """|I_j|."""
        return np.bincount(self.owned.indices, minlength=self.d)

    @cached_property
    def diagonal(self) -> Vector:
        """A bound of the diagonal of the Hessian, with the L2 term inside."""
        squares = np.bincount(self.A.indices, weights=self.A.data**2, minlength=self.d)
        return CURVATURE * squares / self.m + self.l2

    def value(self, x: Vector) -> float:
        return float(np.logaddexp(0.0, -self.y * (self.A @ x)).mean() + self.l2 / 2 * (x @ x))

    def value_and_gradient(self, x: Vector) -> tuple[float, Vector]:
        margin = self.y * (self.A @ x)
        f = float(np.logaddexp(0.0, -margin).mean() + self.l2 / 2 * (x @ x))
        return f, self.transposed @ (-self.y * expit(-margin) / self.m) + self.l2 * x

    def hessian(self, x: Vector) -> LinearOperator:
        """The Hessian at x as products."""
        p = expit(self.A @ x)
        weights = p * (1 - p) / self.m
        return LinearOperator(
            (self.d, self.d), matvec=lambda v: self.transposed @ (weights * (self.A @ v)) + self.l2 * v, dtype=np.float64
        )

    def newton_step(self, x: Vector, gradient: Vector, tolerance: float = 1e-6) -> Vector:
        """-H(x)^-1 gradient, where there are many features up to a residual of that share of the gradient."""
        if self.d <= DENSE:
            p = expit(self.A @ x)
            weighted = self.A.multiply((p * (1 - p) / self.m)[:, None])
            H = np.asarray((self.transposed @ sparse.csr_array(weighted)).todense()) + self.l2 * np.eye(self.d)
            return -np.linalg.solve(H, gradient)
        scale = LinearOperator((self.d, self.d), matvec=lambda v: v / self.diagonal, dtype=np.float64)
        return -cg(self.hessian(x), gradient, rtol=tolerance, maxiter=5000, M=scale)[0]

    @cached_property
    def optimum(self) -> float:
        """f*, by a central solver, to 1e-10 of f: f(x) - f* <= ||grad f(x)||^2 / (2 l2)."""
        if self.solved is not None:
            return self.solved
        scale, x = self.diagonal**-0.25, np.zeros(self.d)

        def scaled(z: Vector) -> tuple[float, Vector]:
            f, g = self.value_and_gradient(scale * z)
            if g @ g <= 2 * self.l2 * EXACT * f:
                raise _Solved(f)
            return f, scale * g

        try:
            for _ in range(50):  # a search that finds nothing lower starts again with an empty memory
                options = {"maxcor": 50, "maxiter": 2000, "maxfun": 4000, "ftol": 0.0, "gtol": 0.0, "maxls": 50}
                x = scale * minimize(scaled, x / scale, jac=True, method="L-BFGS-B", options=options).x
                x = x + self.newton_step(x, self.value_and_gradient(x)[1], 1e-4)
        except _Solved as solved:
            return float(solved.args[0])
        raise AssertionError(f"the central solver stands at f = {self.value(x)}")

    @cached_property
    def start(self) -> float:
        """f(0)."""
        return self.value(np.zeros(self.d))

    def level(self, gap: float) -> float:
        """The value with (f - f*) / (f(0) - f*) = gap."""
        return self.optimum + gap * (self.start - self.optimum)

    def gaps(self, f: Vector) -> Vector:
        return (np.asarray(f) - self.optimum) / (self.start - self.optimum)


def objective(A: sparse.csr_array, y: Vector, clients: Whole, l2: float = L2) -> Objective:
    """From rows without an intercept, labels of two values, and a client for every row.

    >>> f = objective(sparse.csr_array(np.eye(4)), np.array([0, 1, 1, 0]), np.array([1, 0, 0, 1]))
    >>> f.n, f.d, f.sizes.tolist(), f.owners.tolist()
    (2, 5, [3, 3], [1, 1, 1, 1, 2])
    """
    labels = np.unique(y)
    if len(labels) != 2:
        raise ValueError(f"y has {len(labels)} values; the race is about two classes")
    order = np.argsort(clients, kind="stable")
    ones = np.ones((len(order), 1))
    matrix = sparse.csr_array(sparse.hstack([sparse.csr_array(A)[order], ones], format="csr"), dtype=np.float64)
    matrix.eliminate_zeros()
    used = np.flatnonzero(np.bincount(matrix.indices, minlength=matrix.shape[1]))
    number = np.zeros(matrix.shape[1], dtype=np.int32)
    number[used] = np.arange(len(used), dtype=np.int32)
    matrix = sparse.csr_array((matrix.data, number[matrix.indices], matrix.indptr), shape=(len(order), len(used)))
    counts = np.unique(clients, return_counts=True)[1]
    signs = np.where(y[order] == labels[1], 1.0, -1.0)
    return Objective(matrix, signs, np.concatenate([[0], np.cumsum(counts)]), l2)
