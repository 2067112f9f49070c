"""Quadratics with a heterogeneity that can be chosen (Szlendak, Tyurin, Richtarik 2022, their generator):

    f_i(x) = x' A_i x / 2 - b_i' x,   A_i = (nu_i/4) T + delta I,   b_i = (nu_i/4) (-1 + s xi'_i) e_1,   nu_i = 1 + s xi_i,

T = tridiag(-1, 2, -1), xi_i and xi'_i standard normal, delta such that the least eigenvalue of the mean of the A_i is lam.
All A_i have T's eigenvectors, with eigenvalues t_k = 2 - 2 cos(pi k/(d + 1)), so every constant is exact:

    L = max_k |mean_i a_ik|,   L_plus^2 = max_k mean_i a_ik^2,   L_pm^2 = max_k var_i a_ik,   a_ik = (nu_i/4) t_k + delta.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from errorfeedback.core import Floats, Lifted, PerClient, PerColumn, Point, Sample
from errorfeedback.experiments.recipes import ProblemRecipe
from errorfeedback.problems.base import Problem
from errorfeedback.sparsity.support import full_support


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Quadratics(Problem):
    """Made by `QuadraticTask`; some of the f_i may be unbounded below, their mean is not."""

    scales: PerClient
    """nu_i/4."""
    pulls: PerClient
    """The first entry of b_i."""
    delta: float

    def gradients(self, at: Point, out: Lifted, *, rows: Sample | None = None, values: PerClient | None = None) -> None:
        w, slopes = self._clients(at)
        if values is not None:
            values[:] = self._values(w, slopes)
        slopes[:, 0] -= self.pulls
        out[:] = slopes.ravel()

    def values(self, at: Point) -> PerClient:
        return self._values(*self._clients(at))

    def _clients(self, at: Point) -> tuple[Floats, Floats]:
        """Every client's point w and A_i w."""
        w = np.asarray(at.on(self.support.gather)).reshape(self.n, self.d)
        product = 2 * w
        product[:, 1:] -= w[:, :-1]
        product[:, :-1] -= w[:, 1:]
        return w, self.scales[:, None] * product + self.delta * w

    def _values(self, w: Floats, product: Floats) -> PerClient:
        return PerClient(np.einsum("ij,ij->i", w, product) / 2 - self.pulls * w[:, 0])

    def shard(self, lo: int, hi: int) -> Quadratics:
        return Quadratics(
            support=self.support.shard(lo, hi),
            columns=self.columns,
            width=self.width,
            scales=PerClient(self.scales[lo:hi]),
            pulls=PerClient(self.pulls[lo:hi]),
            delta=self.delta,
        )


@dataclass(frozen=True)
class Heterogeneity:
    """The constants that MARINA's theorem with an AB inequality asks for."""

    L: float
    L_plus: float
    L_pm: float


@dataclass(frozen=True)
class QuadraticTask(ProblemRecipe):
    """n clients in d dimensions; `noise` is s: 0 makes all f_i the same."""

    noise: float
    seed: int
    n: int = 10
    d: int = 1000
    lam: float = 1e-6

    smooth = False

    @property
    def slug(self) -> str:
        return f"quadratics-n{self.n}-s{self.noise:g}"

    def _drawn(self) -> tuple[PerClient, PerClient, float]:
        """nu_i/4, the first entries of b_i, and delta."""
        xi, xi_b = np.random.default_rng(self.seed).standard_normal((2, self.n))
        scales = (1 + self.noise * xi) / 4
        eigenvalues = np.mean(scales) * self._spectrum()
        return PerClient(scales), PerClient(scales * (-1 + self.noise * xi_b)), float(self.lam - eigenvalues.min())

    def _spectrum(self) -> Floats:
        """The eigenvalues of T."""
        return 2 - 2 * np.cos(np.pi * np.arange(1, self.d + 1) / (self.d + 1))

    def make(self) -> Problem:
        scales, pulls, delta = self._drawn()
        return Quadratics(support=full_support(self.n, self.d), scales=scales, pulls=pulls, delta=delta)

    def start(self, problem: Problem) -> PerColumn:
        x = np.zeros(self.d)
        x[0] = np.sqrt(self.d)
        return x

    def constants(self) -> Heterogeneity:
        """Exact, from the spectrum."""
        scales, _, delta = self._drawn()
        a = scales[:, None] * self._spectrum() + delta
        norms = (np.abs(a.mean(axis=0)), np.sqrt((a**2).mean(axis=0)), a.std(axis=0))
        return Heterogeneity(*(float(norm.max()) for norm in norms))
