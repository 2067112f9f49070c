"""The choice of S0 (features sent exactly) and K that minimises the predicted bits of EF21.

S0 is a prefix of the features in order of how many clients own them, ties by the curvature of their column: for given
weights the maximum over the features that are left falls fastest that way. |S0| and K run over powers of two; then both are
refined between their neighbours. Candidates are judged by the convex rule (the weighted one where some f_i is not convex)
with the L_i of the remaining features from a few power steps on all clients at once; the winner is planned with every rule
and constants from above.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from errorfeedback.compressors.exact_on_common import ExactOnCommon
from errorfeedback.core import VALUE_BITS, Integers, PerClient
from errorfeedback.methods.ef21 import EF21
from errorfeedback.planner.plan import Option, Origin, Plan, plan
from errorfeedback.problems.base import Curvature, Problem
from errorfeedback.records.network import Network
from errorfeedback.stepsizes.best import rules
from errorfeedback.stepsizes.proved import largest_root
from errorfeedback.stepsizes.theory import analyse
from errorfeedback.stepsizes.weighted import Weighted

REFINED = 6
"""Values that are tried between the neighbours of the best power of two."""
POWER_STEPS = 8


def powers_of_two(below: int) -> list[int]:
    """1, 2, 4, ... < below.

    >>> powers_of_two(9)
    [1, 2, 4, 8]
    """
    return [2**e for e in range(max(below - 1, 0).bit_length())]


@dataclass(frozen=True, eq=False)
class Search:
    """Predicted bits of EF21 from the gradient start as a function of |S0| and K."""

    problem: Problem
    start: Origin

    @cached_property
    def curvature(self) -> Curvature:
        return self.problem.curvature()

    @cached_property
    def order(self) -> Integers:
        """Features, the most common first; ties by the curvature of the column."""
        k = self.curvature
        per_entry = k.A.data**2 * np.repeat(k.weights, np.diff(k.A.indptr))
        steepness = np.bincount(k.A.indices, weights=per_entry, minlength=self.problem.d)
        return np.lexsort((-steepness, -self.problem.support.counts))

    def option(self, size: int, k: int) -> Option:
        compressor = ExactOnCommon(self.order[:size].tolist(), k)
        return Option(f"EF21 Top{k} + {size} exact", EF21(compressor, "gradient"), k)

    def bits(self, sizes: Iterable[int], levels: Iterable[int]) -> list[tuple[float, int, int]]:
        """(predicted bits, |S0|, K) of every pair."""
        levels = list(levels)
        found = []
        for size in sizes:
            rare = np.ones(self.problem.d, dtype=bool)
            rare[self.order[:size]] = False
            L_rare = self._rare_L_i(rare) if self.curvature.convex else None
            found += [(self._bits(size, k, L_rare), size, k) for k in levels]
        return found

    def _bits(self, size: int, k: int, L_rare: PerClient | None) -> float:
        theory = analyse(self.problem, self.option(size, k).method.compressor)
        if theory.alpha == 1:  # nothing is compressed: that is DGD
            return inf
        if L_rare is None:
            M = Weighted().M(theory)
        else:
            M = sqrt(theory.L / theory.n * theory.over_rare(L_rare * theory.xi_i**2))
        rounds = 2 * self.start.gap / (largest_root(theory.L, M) * self.start.epsilon)
        message = float(theory.compressor.bits(theory.support).mean())
        return VALUE_BITS * float(theory.sizes.mean()) + rounds * message

    def _rare_L_i(self, rare: NDArray[np.bool_]) -> PerClient:
        """||P H_i P|| of every client, approximately: power steps in the lifted space."""
        k, support = self.curvature, self.problem.support
        kept = rare[support.indices].astype(np.float64)
        v, lengths = kept, np.zeros(support.n)
        for _ in range(POWER_STEPS):
            v = kept * (k.lifted.T @ (k.weights * (k.lifted @ v)))
            lengths = np.sqrt(support.norms2(v))
            v = v / np.repeat(np.where(lengths > 0, lengths, 1.0), support.sizes)
        return lengths


def best_common(problem: Problem, levels: Sequence[int], start: Origin, network: Network | None = None) -> list[Plan]:
    """The plans of every rule for the best S0 and K; empty where every S0 leaves nothing to compress."""
    search = Search(problem, start)
    found = search.bits(powers_of_two(problem.d), levels)
    bits, size, k = min(found, default=(inf, 0, 0))
    if bits == inf:
        return []
    near_k = _between(k, problem.support.r) if len(levels) > 1 else []
    bits, size, k = min([*found, *search.bits(_between(size, problem.d), [k])])
    bits, size, k = min([(bits, size, k), *search.bits([size], near_k)])
    option = search.option(size, k)
    theory = analyse(problem, option.method.compressor)
    return [plan(theory, option, each, start, network) for each in rules(option.method) if not each.missing(theory)]


def _between(value: int, below: int) -> list[int]:
    """A few numbers between the neighbours of a power of two."""
    found = np.linspace(value // 2, min(2 * value, below - 1), REFINED + 2).round().astype(int)[1:-1]
    return sorted({int(number) for number in found} - {0, value})
