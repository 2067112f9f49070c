"""The largest eigenvalue of a symmetric positive semidefinite operator, from above.

Small operators (d <= DENSE) are written out and given to LAPACK. Others get Lanczos from a random start v on the sphere.
With theta its top Ritz value, rho the residual of the Ritz vector y and sigma = |<y, v>|: if lambda_max > theta + eta, then
v has a part of at most sigma rho/eta along the top eigenvector (docs/theory.md, section 5), and a random v has so small a
part with a probability of at most sqrt(2d/pi) sigma rho/eta. Lanczos stops when rho <= close theta and that probability is
below UNLIKELY for eta = MIXED close theta, which is added; `how` says how small it was. It goes with 1/eta.

The start is drawn from a hash of the data: the same data have the same constants to the last bit, and nobody can choose
data whose top eigenvector the start does not see, but by trying 1/UNLIKELY data sets (for an error of MIXED close; for one
of a thousandth, a million times as many).

If STEPS steps do not get there, LAPACK gets the operator after all where d <= DENSE_FALLBACK. Above that, the bound of
Kuczynski and Wozniakowski (1992, Theorem 4.2) is used: after k steps from a random start, P(theta < (1 - eps) lambda_max)
is at most 1.648 sqrt(d) exp(-sqrt(eps) (2k - 1)); eps is chosen so that this is FAILURE, and theta / (1 - eps) is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal, eigvalsh
from scipy.linalg.blas import daxpy

from errorfeedback.core import Floats

DENSE = 200
TOLERANCE = 1e-13
MIXED = 5000
DENSE_FALLBACK = 2000
STEPS = 300
FAILURE = 1e-10
UNLIKELY = 1e-4
SEED = 0x5EED
EPS = float(np.finfo(np.float64).eps)
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


def key_of(*arrays: NDArray[Any]) -> int:
    """A hash of what an operator is made of, from which its start is drawn; integers count as what they are in 64 bits."""
    digest = sha256()
    for array in arrays:
        digest.update(len(array).to_bytes(8))
        digest.update(np.ascontiguousarray(array, dtype=np.float64 if array.dtype.kind == "f" else np.int64).data)
    return int.from_bytes(digest.digest()[:7])


def largest_eigenvalue(product: Callable[[Floats], Floats], d: int, key: int, close: float = TOLERANCE) -> Eigenvalue:
    """lambda_max of the symmetric positive semidefinite v -> product(v) on R^d, from above; a larger `close` is sooner done.
    What `product` returns may be overwritten. `key`: a hash of all that the operator is made of.

    >>> round(largest_eigenvalue(lambda v: np.array([1.0, 3.0]) * v, 2, key=0).upper, 9)
    3.0
    """
    return _dense(product, d) if d <= DENSE else _lanczos(product, d, key, close)


def _dense(product: Callable[[Floats], Floats], d: int) -> Eigenvalue:
    matrix = np.column_stack([product(column) for column in np.eye(d)])
    top = max(float(eigvalsh((matrix + matrix.T) / 2, subset_by_index=[d - 1, d - 1])[0]), 0.0)
    return Eigenvalue(top * (1 + _slack(d)), "dense eigenvalue")


def _lanczos(product: Callable[[Floats], Floats], d: int, key: int, close: float) -> Eigenvalue:
    v = np.random.default_rng([SEED, key]).standard_normal(d)
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
            theta, rho, sigma = ritz(diagonal, off, beta)
            unseen = chance(np.sqrt(2 * d / np.pi), theta, rho, sigma, close)
            if exhausted or (rho <= close * theta and unseen <= UNLIKELY):
                how = f"Lanczos, {k} steps, too small with probability {unseen:.0e} at the most"
                return Eigenvalue((theta + rho) * (1 + MIXED * close + _slack(d)), how, tight=close <= TOLERANCE)
        off.append(beta)
        w /= beta
        before, v = v, w
    if d <= DENSE_FALLBACK:
        return _dense(product, d)
    eps = (np.log(1.648 * np.sqrt(d) / FAILURE) / (2 * STEPS - 1)) ** 2
    how = f"Lanczos, {STEPS} steps, within {eps:.1%} except with probability {FAILURE:.0e}"
    return Eigenvalue(theta / (1 - eps), how, tight=False)


def chance(density: float, theta: float, rho: float, sigma: float, close: float) -> float:
    """The probability that lambda_max > theta (1 + MIXED close), for a start whose part along any direction is below tau
    with the probability `density` tau at the most. (A residual is not known to more than rounding.)"""
    return density * sigma * max(rho, EPS * theta) / (MIXED * close * theta) if theta else 0.0


def ritz(diagonal: Sequence[float] | Floats, off: Sequence[float] | Floats, beta: float) -> tuple[float, float, float]:
    """The top Ritz value, its residual (beta times the last entry of the tridiagonal eigenvector) and the first entry."""
    k = len(diagonal)
    values, vectors = eigh_tridiagonal(np.array(diagonal), np.array(off), select="i", select_range=(k - 1, k - 1))
    return float(values[0]), beta * abs(float(vectors[-1, 0])), abs(float(vectors[0, 0]))


def _slack(d: int) -> float:
    return float(ROUNDING * np.sqrt(d))
