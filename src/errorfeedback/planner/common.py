"""The choice of S0 (features sent exactly) and K that minimises the predicted price of EF21: bits up and down, or time.

S0 is a prefix of the features in order of how many clients own them, ties by the curvature of their column: for given
weights the maximum over the features that are left falls fastest that way. |S0| and K run over powers of two (|S0| over
powers of four where there are many features); then both are refined between their neighbours, twice (once where there are
many features). Candidates are judged by the convex rule (the weighted one where some f_i is not convex) with the L_i of the
remaining features from a few power steps; the winner is planned with every rule and constants from above.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from errorfeedback.compressors.exact_on_common import ExactOnCommon
from errorfeedback.core import VALUE_BITS, Integers, Lifted, PerClient
from errorfeedback.methods.base import full_upload
from errorfeedback.methods.ef21 import EF21
from errorfeedback.planner.network import Pace
from errorfeedback.planner.plan import Option, Origin, Plan, plan
from errorfeedback.problems.base import CurvatureBound, Problem, curvature_of
from errorfeedback.smoothness.clients import power_steps
from errorfeedback.sparsity.support import runs
from errorfeedback.stepsizes.best import rules
from errorfeedback.stepsizes.proved import largest_root
from errorfeedback.theory.analysis import Theory, analyse
from errorfeedback.wire.frames import bits_per_index, frame_bits

FINE = 12
"""More powers of two than this below d: only every other one is tried."""
REFINED = 6
"""Values that are tried between the neighbours of the best one of a grid."""
FIRST_STEPS, POWER_STEPS = 15, 3
"""Power steps for the first S0, and for a later one, which starts where the last one ended."""


def powers_of_two(below: int) -> list[int]:
    """1, 2, 4, ... < below.

    >>> powers_of_two(9)
    [1, 2, 4, 8]
    """
    return [2**e for e in range(max(below - 1, 0).bit_length())]


@dataclass(frozen=True, eq=False)
class Search:
    """The predicted price of EF21 from the gradient start as a function of |S0| and K."""

    problem: Problem
    start: Origin
    pace: Pace | None = None
    down: float = 1.0
    """What a bit down counts beside one up, where there is no network."""

    @cached_property
    def curvature(self) -> CurvatureBound:
        return curvature_of(self.problem)

    @cached_property
    def theory(self) -> Theory:
        return analyse(self.problem)

    @cached_property
    def owned(self) -> sparse.csr_array:
        """(n, d): 1 where client i owns feature j."""
        s = self.problem.support
        return sparse.csr_array((np.ones(s.size), s.indices, s.indptr), shape=(s.n, s.d))

    @cached_property
    def order(self) -> Integers:
        """Features, the most common first; ties by the curvature of the column."""
        k, owned = self.curvature, self.problem.support.by_feature
        per_entry = k.A.data**2 * np.repeat(k.weights, np.diff(k.A.indptr))
        steepness = np.bincount(k.A.indices, weights=per_entry, minlength=owned.d)
        return runs(np.lexsort((-steepness, -owned.counts)), k.outputs)

    def option(self, size: int, k: int) -> Option:
        compressor = ExactOnCommon(self.order[:size].tolist(), k)
        return Option(f"EF21 Top{k} + {size} exact", EF21(compressor, "gradient"), k)

    def prices(self, sizes: Iterable[int], levels: Sequence[int]) -> list[tuple[float, int, int]]:
        """(predicted price, |S0|, K) of every pair; infinite where nothing is compressed, which is DGD."""
        candidates = []
        v: Lifted | None = None
        for size in sorted(sizes):
            rare = np.ones(self.problem.d, dtype=bool)
            rare[self.order[:size]] = False
            L, v = self._rare_L_i(rare, v) if self.curvature.convex else (self.theory.L_i, None)
            candidates += [
                (price, size, k) for price, k in zip(self._prices(rare, L, np.array(levels)), levels, strict=True)
            ]
        return candidates

    def _prices(self, rare: NDArray[np.bool_], L: PerClient, levels: Integers) -> list[float]:
        """For all K at once: the mean message times the rounds of the convex or the weighted rule."""
        theory, sizes = self.theory, self.problem.support.sizes
        rest = (self.owned @ rare.astype(np.float64)).astype(np.int64)
        sent = np.minimum(levels, rest[:, None])
        alpha = np.where(rest[:, None] > 0, sent / np.maximum(rest, 1)[:, None], 1.0)
        xi = (np.sqrt(1 - alpha) + 1 - alpha) / alpha
        if self.curvature.convex:
            M2 = theory.L / theory.n * (self.owned.T @ (L[:, None] * xi**2))[rare].max(axis=0, initial=0.0)
        else:
            shares = self.owned.T @ (L[:, None] * xi)
            M2 = shares[rare].max(axis=0, initial=0.0) * shares.max(axis=0) / theory.n**2
        index = np.where(sent < rest[:, None], bits_per_index(np.maximum(rest, 1))[:, None], 0)
        counts = (sizes - rest)[:, None] + sent
        message = frame_bits(counts, sent * index, VALUE_BITS * counts)
        gamma = np.array([largest_root(theory.L, sqrt(m)) for m in M2])
        first, *rounds = self._round_prices(full_upload(self.problem.support), *message.T)
        prices = first + np.array(rounds) * 2 * self.start.gap / (gamma * self.start.epsilon)
        return np.where(alpha.min(axis=0) < 1, prices, inf).tolist()

    def _round_prices(self, *uploads: PerClient) -> list[float]:
        """Of rounds in which the clients send so much."""
        down = full_upload(self.problem.support)  # x on J_i, in frames
        if self.pace is None:
            return [float((up + self.down * down).mean()) for up in uploads]
        return [self.pace.slowest(up, down) for up in uploads]

    def _rare_L_i(self, rare: NDArray[np.bool_], v: Lifted | None) -> tuple[PerClient, Lifted]:
        """||P H_i P|| of every client, approximately: power steps in the lifted space, from where the last S0 ended. P keeps
        the features of which some number is rare."""
        support = self.problem.support.by_feature
        some = np.logical_or.reduceat(rare, np.arange(0, len(rare), self.curvature.outputs))
        kept = Lifted(some[support.indices].astype(np.float64))
        steps, v = (FIRST_STEPS, Lifted(kept.copy())) if v is None else (POWER_STEPS, v)
        return power_steps(self.curvature, support, kept, v, steps), v


def best_common(
    problem: Problem, levels: Sequence[int], start: Origin, pace: Pace | None = None, *, down: float = 1.0
) -> list[Plan]:
    """The plans of every rule for the best S0 and K; empty where every S0 leaves nothing to compress."""
    search = Search(problem, start, pace, down)
    sizes = powers_of_two(problem.d)
    thin = 1 + (len(sizes) > FINE)
    candidates = search.prices(sizes[::thin], levels)
    price, size, k = min(candidates, default=(inf, 0, 0))
    if price == inf:
        return []
    for _ in range(3 - thin):
        candidates += search.prices(_between(size, problem.d, 2**thin), [k])
        price, size, k = min(candidates)
        if len(levels) > 1:
            candidates += search.prices([size], _between(k, problem.support.r, 2))
            price, size, k = min(candidates)
    option = search.option(size, k)
    theory = analyse(problem, option.method.compressor)
    return [plan(theory, option, each, start, pace) for each in rules(option.method) if not each.missing(theory)]


def _between(value: int, below: int, factor: int) -> list[int]:
    """A few numbers between value/factor and value*factor."""
    numbers = np.linspace(value // factor, min(factor * value, below - 1), REFINED + 2).round().astype(int)[1:-1]
    return sorted({int(number) for number in numbers} - {0, value})
