"""The largest eigenvalue of a symmetric positive semidefinite operator, from above.

Small operators (d <= DENSE) are written out and given to LAPACK. Others get Lanczos from a seeded random start. Lanczos
stops when the residual rho of its top Ritz pair is below `close` times the Ritz value theta: then an eigenvalue lies within
rho of theta. It may be the second largest, when the two are so close that their eigenvectors are still mixed: with shares
w1 and w2 of the mixture, lambda_max - theta = rho sqrt(w2/w1). The shares are those of a random start, so that the square
root is a ratio of two normal numbers; MIXED close theta is added for it.

If STEPS steps do not get there, LAPACK gets the operator after all where d <= DENSE_FALLBACK. Above that, the bound of
Kuczynski and Wozniakowski (1992, Theorem 4.2) is used: after k steps from a random start, P(theta < (1 - eps) lambda_max)
is at most 1.648 sqrt(d) exp(-sqrt(eps) (2k - 1)); eps is chosen so that this is FAILURE, and theta / (1 - eps) is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal, eigvalsh
from scipy.linalg.blas import daxpy

from errorfeedback.core import Floats

DENSE = 200
TOLERANCE = 1e-13
MIXED = 5000
DENSE_FALLBACK = 2000
STEPS = 300
FAILURE = 1e-10
SEED = 0x5EED
ROUNDING = 64 * np.finfo(np.float64).eps
"""Slack for rounding in LAPACK and in the products, relative to the eigenvalue and per sqrt(d)."""


@dataclass(frozen=True)
class Eigenvalue:
    """An upper bound on lambda_max and how it was found."""

    upper: float
    how: str
    tight: bool = True
    """Known to 1e-9, relative; otherwise a bound."""

    @property
    def words(self) -> str:
        """What it is, and how it was found."""
        return f"{'exact' if self.tight else 'bound'} ({self.how})"


def largest_eigenvalue(product: Callable[[Floats], Floats], d: int, close: float = TOLERANCE) -> Eigenvalue:
    """lambda_max of the symmetric positive semidefinite v -> product(v) on R^d, from above; a larger `close` is sooner done.
    What `product` returns may be overwritten.

    >>> round(largest_eigenvalue(lambda v: np.array([1.0, 3.0]) * v, 2).upper, 9)
    3.0
    """
    return _dense(product, d) if d <= DENSE else _lanczos(product, d, close)


def _dense(product: Callable[[Floats], Floats], d: int) -> Eigenvalue:
    matrix = np.column_stack([product(column) for column in np.eye(d)])
    top = max(float(eigvalsh((matrix + matrix.T) / 2, subset_by_index=[d - 1, d - 1])[0]), 0.0)
    return Eigenvalue(top * (1 + _slack(d)), "dense eigenvalue")


def _lanczos(product: Callable[[Floats], Floats], d: int, close: float) -> Eigenvalue:
    v = np.random.default_rng(SEED).standard_normal(d)
    v /= np.linalg.norm(v)
    before, beta = np.zeros(d), 0.0
    diagonal: list[float] = []
    off: list[float] = []
    theta = 0.0
    for k in range(1, STEPS + 1):
        w = product(v)
        diagonal.append(float(w @ v))
        w = daxpy(before, daxpy(v, w, a=-diagonal[-1]), a=-beta)  # in place
        beta = float(np.linalg.norm(w))
        exhausted = beta <= ROUNDING * max(diagonal)  # the start lies in a space that has been searched
        if k % 5 == 0 or exhausted or k == STEPS:
            theta, rho = ritz(diagonal, off, beta)
            if rho <= close * theta or exhausted:
                how = f"Lanczos, {k} steps, residual {rho / (theta or 1.0):.0e}"
                return Eigenvalue((theta + rho) * (1 + MIXED * close + _slack(d)), how, tight=close <= TOLERANCE)
        off.append(beta)
        w /= beta
        before, v = v, w
    if d <= DENSE_FALLBACK:
        return _dense(product, d)
    eps = (np.log(1.648 * np.sqrt(d) / FAILURE) / (2 * STEPS - 1)) ** 2
    how = f"Lanczos, {STEPS} steps, within {eps:.1%} except with probability {FAILURE:.0e}"
    return Eigenvalue(theta / (1 - eps), how, tight=False)


def ritz(diagonal: Sequence[float] | Floats, off: Sequence[float] | Floats, beta: float) -> tuple[float, float]:
    """The top Ritz value and its residual: beta times the last entry of the tridiagonal eigenvector."""
    k = len(diagonal)
    values, vectors = eigh_tridiagonal(np.array(diagonal), np.array(off), select="i", select_range=(k - 1, k - 1))
    return float(values[0]), beta * abs(float(vectors[-1, 0]))


def _slack(d: int) -> float:
    return float(ROUNDING * np.sqrt(d))
