"""All plans for a problem: DGD, MARINA with RandK and PermK, EF21 with every rule and K in 1, 2, 4, ..., EF21 with the
best S0.

EF21 is planned from both starts (g_i^0 = 0, and a first upload of all gradients) and keeps the cheaper one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from errorfeedback.compressors.perm_k import PermK
from errorfeedback.compressors.rand_k import RandK
from errorfeedback.compressors.top_k import TopK
from errorfeedback.methods.dgd import DGD
from errorfeedback.methods.ef21 import EF21
from errorfeedback.methods.marina import MARINA
from errorfeedback.planner.common import best_common, powers_of_two
from errorfeedback.planner.network import Pace
from errorfeedback.planner.plan import Option, Origin, Plan, plan
from errorfeedback.problems.base import Problem
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.stepsizes.best import rules
from errorfeedback.stepsizes.inverse_L import InverseL
from errorfeedback.stepsizes.marina_rules import MarinaAB, MarinaIndependent
from errorfeedback.theory.analysis import analyse


def plans(problem: Problem, start: Origin, pace: Pace | None = None, k: Sequence[int] | None = None) -> list[Plan]:
    """Every plan, the cheapest first: by time on the network where there is one, else by bits up and down. `k`: the levels
    to try (default 1, 2, 4, ... below r)."""
    levels = list(k) if k is not None else powers_of_two(problem.support.r)
    candidates = [plan(analyse(problem), Option("DGD", DGD()), InverseL(), start, pace)]
    candidates += _marina(problem, levels, start, pace)
    for level in levels:
        candidates += _ef21(problem, level, start, pace)
    candidates += best_common(problem, levels, start, pace)
    return sorted(candidates, key=lambda plan: plan.price)


def _marina(problem: Problem, levels: Sequence[int], start: Origin, pace: Pace | None) -> Iterator[Plan]:
    """The better rule for every K: independent draws have two theorems."""
    both: list[Fixed] = [MarinaAB(), MarinaIndependent()]
    options = [Option(f"MARINA Rand{k}", MARINA(RandK(k)), k) for k in levels]
    for option, rules_for in [*((option, both) for option in options), (Option("MARINA PermK", MARINA(PermK())), both[:1])]:
        theory = analyse(problem, option.method.compressor)
        yield min((plan(theory, option, rule, start, pace) for rule in rules_for), key=lambda plan: plan.price)


def _ef21(problem: Problem, k: int, start: Origin, pace: Pace | None) -> Iterator[Plan]:
    theory = analyse(problem, TopK(k))
    both = [Option(f"EF21 Top{k}", EF21(TopK(k), "gradient"), k), Option(f"EF21 Top{k}, zero start", EF21(TopK(k)), k)]
    for rule in rules(both[0].method):
        if not rule.missing(theory):
            yield min((plan(theory, option, rule, start, pace) for option in both), key=lambda plan: plan.price)
