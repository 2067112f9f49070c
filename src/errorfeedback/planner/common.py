"""The choice of S0 (features sent exactly) and K that minimises the predicted bits of EF21.

S0 is a prefix of the features in order of how many clients own them, ties by the curvature of their column: for given
weights the maximum over the features that are left falls fastest that way. |S0| and K run over powers of two; then |S0| is
refined between its neighbours. A candidate is judged by a rule without an eigenvalue (`Convex`, or `Weighted` where some f_i
is not convex), the winner by every rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import inf

import numpy as np

from errorfeedback.compressors.exact_on_common import ExactOnCommon
from errorfeedback.core import Integers
from errorfeedback.methods.ef21 import EF21
from errorfeedback.planner.plan import Option, Origin, Plan, plan
from errorfeedback.problems.base import Problem
from errorfeedback.records.network import Network
from errorfeedback.stepsizes.best import rules
from errorfeedback.stepsizes.convex import Convex
from errorfeedback.stepsizes.proved import Proved
from errorfeedback.stepsizes.theory import analyse
from errorfeedback.stepsizes.weighted import Weighted

REFINED = 4
"""Sizes of S0 that are tried between the neighbours of the best power of two."""


def powers_of_two(below: int) -> list[int]:
    """1, 2, 4, ... < below.

    >>> powers_of_two(9)
    [1, 2, 4, 8]
    """
    return [2**e for e in range(max(below - 1, 0).bit_length())]


def by_commonness(problem: Problem) -> Integers:
    """Features, the most common first; ties by the curvature of the column."""
    k = problem.curvature()
    per_entry = k.A.data**2 * np.repeat(k.weights, np.diff(k.A.indptr))
    steepness = np.bincount(k.A.indices, weights=per_entry, minlength=problem.d)
    return np.lexsort((-steepness, -problem.support.counts))


def best_common(problem: Problem, levels: Sequence[int], start: Origin, network: Network | None = None) -> list[Plan]:
    """The plans of every rule for the best S0 and K; empty where no S0 can be chosen (d = 1)."""
    order = by_commonness(problem)
    rule: Proved = Convex() if problem.curvature().convex else Weighted()
    sizes = powers_of_two(problem.d)
    judge = partial(_bits, problem, order, rule, start)
    if not sizes:
        return []
    bits, size, k = min(judge(size, k) for size in sizes for k in levels)
    bits, size, k = min([(bits, size, k), *(judge(near, k) for near in _between(size, problem.d))])
    if bits == inf:
        return []
    option = _option(order, size, k)
    theory = analyse(problem, option.method.compressor)
    return [plan(theory, option, each, start, network) for each in rules(option.method) if not each.missing(theory)]


def _between(size: int, d: int) -> Iterable[int]:
    """A few sizes between the neighbours of a power of two."""
    found = np.linspace(size // 2, min(2 * size, d - 1), REFINED + 2).round().astype(int)[1:-1]
    return sorted({int(s) for s in found} - {0, size})


def _option(order: Integers, size: int, k: int) -> Option:
    return Option(f"EF21 Top{k} + {size} exact", EF21(ExactOnCommon(order[:size].tolist(), k), "gradient"), k)


def _bits(problem: Problem, order: Integers, rule: Proved, start: Origin, size: int, k: int) -> tuple[float, int, int]:
    option = _option(order, size, k)
    theory = analyse(problem, option.method.compressor)
    if theory.alpha == 1:  # nothing is compressed: that is DGD
        return inf, size, k
    return plan(theory, option, rule, start).bits, size, k
