"""The paper's generator of sparse least-squares problems (appendix, "Linear regression on sparse data").

1. Pattern: each feature goes to c clients chosen uniformly; restarted, five attempts in all, until every client has
   a feature.
2. A_i (m rows on J_i) = U diag(s) V' with U, V the singular vectors of a matrix of uniform numbers, scaled so that
   the s_k^2 are the eigenvalues of (2/m) A_i'A_i. `spectrum` says which: with "code" (default; it made the published
   figures) s_k = (1-v) sqrt(1 + 19 k/(|J_i|-1)) + v (10 if i = 0 else 0), and with "text" (as the appendix reads)
   s_k^2 = (1-v) (1 + 19 k/(m-1)) + v (10 if i = 0 and k is last else 0). A client with a single singular value gets
   s = sqrt(20), whatever v is (the authors' code).
3. b_i = A_i x_sol + p U[-1, 1] with x_sol = 1/2 everywhere and p = `noise`; then A_i and b_i are scaled by sqrt(m/2).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from errorfeedback.core import Floats, Integers
from errorfeedback.problems.glm import GLM
from errorfeedback.problems.linear_models import least_squares
from errorfeedback.problems.regularizers import Regularizer

ATTEMPTS = 5
MU, LARGEST, FIRST_CLIENT = 1.0, 20.0, 10.0
"""The spectrum's ends, and what v = 1 leaves the first client with."""

Spectrum = Callable[[int, int, int, float], Floats]


def _code(count: int, size: int, client: int, v: float) -> Floats:
    ramp = np.sqrt(MU + (LARGEST - MU) * np.arange(count) / (size - 1))
    return (1 - v) * ramp + v * FIRST_CLIENT * (client == 0)


def _text(count: int, size: int, client: int, v: float) -> Floats:
    eigenvalues = (1 - v) * np.linspace(MU, LARGEST, count)
    eigenvalues[-1] += v * FIRST_CLIENT * (client == 0)
    return np.sqrt(eigenvalues)


SPECTRA: dict[str, Spectrum] = {"code": _code, "text": _text}


def synthetic(
    n: int,
    d: int,
    m: int,
    c: int,
    v: float = 0.1,
    noise: float = 2.0,
    seed: int = 0,
    *,
    spectrum: str = "code",
    regularizer: Regularizer | None = None,
    dtype: DTypeLike = np.float64,
) -> GLM:
    """`n` clients with `m` rows each; every one of the `d` features on exactly `c` clients.

    `v`: how far the first client stands out. `noise`: p, of the targets. `seed`: of all draws. `spectrum`: "code" or "text".
    `regularizer`: a penalty within f. `dtype`: precision of data, memory, messages.

    >>> synthetic(n=10, d=20, m=3, c=2).support.c
    2
    """
    _check(n, d, m, c, v, noise, spectrum)
    rng = np.random.default_rng(seed)
    indptr, features = _pattern(rng, n, d, c)
    blocks, targets = [], []
    for client, (lo, hi) in enumerate(pairwise(indptr)):
        A = _block(rng, m, hi - lo, client, v, SPECTRA[spectrum])
        b = A @ np.full(hi - lo, 0.5) + noise * rng.uniform(-1.0, 1.0, m)
        blocks.append(A)
        targets.append(b)
    matrix = sparse.csr_array(
        (
            np.concatenate([A.ravel() for A in blocks]),
            np.concatenate([np.tile(features[lo:hi], m) for lo, hi in pairwise(indptr)]),
            np.concatenate([[0], np.cumsum(np.repeat(np.diff(indptr), m))]),
        ),
        shape=(n * m, d),
    )
    scale = np.sqrt(m / 2)
    b = np.concatenate(targets) * scale
    return least_squares(matrix * scale, b, clients=n, regularizer=regularizer, dtype=dtype)


def _pattern(rng: np.random.Generator, n: int, d: int, c: int) -> tuple[Integers, Integers]:
    """J_1, ..., J_n one after the other: c random clients for every feature."""
    for _ in range(ATTEMPTS):
        owners = np.concatenate([rng.choice(n, size=c, replace=False) for _ in range(d)])
        sizes = np.bincount(owners, minlength=n)
        if sizes.all():
            features = np.repeat(np.arange(d), c)[np.argsort(owners, kind="stable")]
            return np.concatenate([[0], np.cumsum(sizes)]), features
    raise ValueError(
        f"after {ATTEMPTS} attempts a client still has no feature: d c = {d * c} places are too few for n = {n} clients; "
        "raise c or d, lower n, or try another seed"
    )


def _block(rng: np.random.Generator, m: int, size: int, client: int, v: float, spectrum: Spectrum) -> Floats:
    U, _, Vt = np.linalg.svd(rng.random((m, size)), full_matrices=False)
    count = min(m, size)
    s = spectrum(count, size, client, v) if count > 1 else np.array([np.sqrt(LARGEST)])
    return (U * s) @ Vt


def _check(n: int, d: int, m: int, c: int, v: float, noise: float, spectrum: str) -> None:
    for name, number in (("n", n), ("d", d), ("m", m)):
        if number < 1:
            raise ValueError(f"{name} = {number}; it must be at least 1")
    if not 1 <= c <= n:
        raise ValueError(f"c = {c}; a feature lives on 1 to n = {n} clients")
    if not 0 <= v < 1:
        raise ValueError(f"v = {v}; it must be in [0, 1) (v = 1 leaves every client but the first without data)")
    if not (np.isfinite(noise) and noise >= 0):
        raise ValueError(f"noise = {noise}; it must be finite and at least 0")
    if spectrum not in SPECTRA:
        raise ValueError(f"spectrum = {spectrum!r}; it must be one of {', '.join(SPECTRA)}")
