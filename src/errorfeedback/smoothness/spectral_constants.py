"""Weighted curvature of all clients at once, from above (ours; docs/theory.md, "Spectral constants").

The rows' part of client i's gradient moves by D_i = A_i' diag(e) A_i (y - x) with 0 <= e <= w, H_i = A_i' diag(w) A_i.
P keeps the rare features (all, where nothing is sent exactly). For weights v_i >= 0
    sum_i v_i ||P D_i||^2 <= lambda_max(sum_i v_i H_i P H_i) ||y - x||^2                quadratics: e = w, exact
    sum_i v_i ||P D_i||^2 <= lambda_max(sum_i v_i L_i(P) H_i) ||y - x||^2               otherwise (co-coercivity)
with L_i(P) = ||P H_i P||. A penalty with |phi''| <= 2 lam adds 2 lam sqrt(max_j sum_{i in I_j} v_i) to the square root
(triangle inequality in the lifted space). v_i = 1/n and P = I is L_plus: never above Lemma 2's bound.

A model of q outputs has H_i kron I_q in place of H_i. There a feature counts as rare where any of its q numbers is: P grows,
and every bound with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from errorfeedback.core import Floats, PerClient
from errorfeedback.problems.base import Problem
from errorfeedback.smoothness.clients import client_norms
from errorfeedback.smoothness.constants import Smoothness, smoothness
from errorfeedback.smoothness.products import squares_times, times, transposed_times
from errorfeedback.smoothness.spectrum import Eigenvalue, key_of, largest_eigenvalue
from errorfeedback.sparsity.support import support_of

Mask = NDArray[np.bool_]
ALIKE = 1.05
"""Weights that are this close to multiples of |J_i|/L_i(P), as TopK's are for small K, share one eigenvalue."""
CLOSE = 1e-6
"""Residuals, relative to their eigenvalue: from above is all that is needed here (half a percent too large at the most)."""


def rows_L_i(s: Smoothness, rare: Mask) -> PerClient:
    """||P H_i P|| of every client: the smoothness of the rows' part of f_i in the rare features."""
    if rare.all():
        return PerClient(s.L_i - s.curvature.diagonal)
    k = s.curvature
    A = sparse.csr_array(k.A[:, np.flatnonzero(rare)])
    support, positions = support_of(A.indptr[k.rows], A.indices, A.shape[1])
    lifted = sparse.csr_array((A.data, positions, A.indptr), shape=(A.shape[0], support.size))
    return client_norms(replace(k, A=A, lifted=lifted), support, CLOSE)


@dataclass(frozen=True)
class _RareRows:
    """rows_L_i as something that a problem computes once per set of rare features."""

    rare: bytes

    def __call__(self, problem: Problem) -> PerClient:
        return rows_L_i(smoothness(problem), np.frombuffer(self.rare, dtype=bool))


def rows_L_i_of(problem: Problem, rare: Mask) -> PerClient:
    """`rows_L_i`, computed once per problem and set."""
    return problem.memo(_RareRows(rare.tobytes()))


def weighted_curvature(s: Smoothness, v: PerClient, rare: Mask, L_rare: PerClient) -> Eigenvalue:
    """The bound on sum_i v_i ||P D_i||^2 for a unit step, rows' part; never above max_j sum_{i in I_j} v_i L_i(P) L_i."""
    with np.errstate(over="ignore"):  # rare features may be so small beside the others that |J_i|/L_i(P) is no number
        u = np.divide(s.support.sizes, L_rare, out=np.zeros(s.support.n), where=L_rare > 0)
    ratios = v[u > 0] / u[u > 0]
    if (
        len(ratios) and np.isfinite(u).all() and ratios.max() <= ALIKE * ratios.min()
    ):  # sum_i v_i K_i <= max_i (v_i/u_i) sum_i u_i K_i
        key = rare.tobytes()
        if key not in s.shared_eigenvalues:
            s.shared_eigenvalues[key] = _weighted_eigenvalue(s, PerClient(u), rare, L_rare)
        top = replace(s.shared_eigenvalues[key], upper=float(ratios.max()) * s.shared_eigenvalues[key].upper)
    else:
        top = _weighted_eigenvalue(s, v, rare, L_rare)
    norms = over_features(s, PerClient(v * L_rare * (s.L_i - s.curvature.diagonal)), np.ones_like(rare))
    return top if top.upper <= norms else Eigenvalue(norms, "norms", tight=False)


def _weighted_eigenvalue(s: Smoothness, v: PerClient, rare: Mask, L_rare: PerClient) -> Eigenvalue:
    """lambda_max(sum_i v_i K_i)."""
    k = s.curvature
    if k.quadratic:
        weights = np.repeat(v, s.support.sizes) * rare[s.support.indices]

        def product(x: Floats) -> Floats:
            return squares_times(k, s.support, x, weights)
    else:
        rows = k.weights * np.repeat(v * L_rare, np.diff(k.rows))

        def product(x: Floats) -> Floats:
            out: Floats = transposed_times(k.A, rows * times(k.A, x))
            return out

    return largest_eigenvalue(product, s.support.d, key_of(np.array([s.key]), v, rare), CLOSE)


def weighted_gradient_change(s: Smoothness, v: PerClient, rare: Mask, L_rare: PerClient) -> tuple[float, str]:
    """sup sqrt(sum_i v_i ||P (grad f_i(y) - grad f_i(x))||^2) / ||y - x||, penalty included, and how it was found."""
    top = weighted_curvature(s, v, rare, L_rare)
    kind = "rows exact" if s.curvature.quadratic else "co-coercivity"
    penalty = 0.0
    if s.curvature.diagonal:
        penalty = s.curvature.diagonal * float(np.sqrt(over_features(s, v, rare)))
    return float(np.sqrt(top.upper)) + penalty, f"bound (spectral, {kind}, {top.how})"


def over_features(s: Smoothness, v: PerClient, rare: Mask) -> float:
    """max over rare j of sum_{i in I_j} v_i; 0 where no feature is rare."""
    return float(s.support.scatter(s.support.repeat(v))[rare].max(initial=0.0))


def L_plus_spectral(problem: Problem) -> tuple[float, str]:
    """The smallest bound on L_plus that we have, and how it was found (computed once per problem)."""
    return problem.memo(_L_plus_spectral)


def _L_plus_spectral(problem: Problem) -> tuple[float, str]:
    s = smoothness(problem)
    published = (s.L_plus, s.how["L_plus"])
    if s.curvature.quadratic:
        return published  # the exact one, or the exact rows' part plus the penalty's, or Lemma 2
    rare = np.ones(s.support.d, dtype=bool)
    spectral = weighted_gradient_change(s, PerClient(np.full(s.support.n, 1 / s.support.n)), rare, rows_L_i(s, rare))
    return min(spectral, published)
