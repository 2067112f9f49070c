"""All plans for a problem: DGD, MARINA with RandK and PermK, EF21 with every rule and K in 1, 2, 4, ..., EF21 with the
best S0, EF21 with every number in few bits.

EF21 is planned from two starts and keeps the cheaper one: a first upload of all gradients, and g_i^0 = 0 (TopK) or the
first upload in few bits. x goes down in full precision: the theorems are about a point that everybody knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, log2

from errorfeedback.compressors.few_bits import FewBits
from errorfeedback.compressors.perm_k import PermK
from errorfeedback.compressors.powers_of_two import PowersOfTwo
from errorfeedback.compressors.rand_k import RandK
from errorfeedback.compressors.small_float import SmallFloat
from errorfeedback.compressors.top_k import TopK
from errorfeedback.compressors.uniform_levels import Uniform
from errorfeedback.methods.dgd import DGD
from errorfeedback.methods.ef21 import EF21
from errorfeedback.methods.marina import MARINA
from errorfeedback.planner.common import best_common, powers_of_two
from errorfeedback.planner.network import Pace
from errorfeedback.planner.plan import COMPRESSED, ZERO, Option, Origin, Plan, plan
from errorfeedback.problems.base import Problem
from errorfeedback.sparsity.support import Support
from errorfeedback.stepsizes.base import Fixed
from errorfeedback.stepsizes.best import rules
from errorfeedback.stepsizes.inverse_L import InverseL
from errorfeedback.stepsizes.marina_rules import MarinaAB, MarinaIndependent
from errorfeedback.theory.analysis import Theory, analyse

BLOCK, MOST_BITS = 1024, 16
"""Entries to a unit in section 7 of docs/theory.md, and what `Uniform` has at most (c of a million)."""


def plans(problem: Problem, start: Origin, pace: Pace | None = None, k: Sequence[int] | None = None) -> list[Plan]:
    """Every plan, the cheapest first: by time on the network where there is one, else by bits up and down. `k`: the levels
    to try (default 1, 2, 4, ... below r)."""
    levels = list(k) if k is not None else powers_of_two(problem.support.r)
    candidates = [plan(analyse(problem), Option("DGD", DGD()), InverseL(), start, pace)]
    candidates += _marina(problem, levels, start, pace)
    for level in levels:
        candidates += _ef21(problem, level, start, pace)
    candidates += best_common(problem, levels, start, pace)
    for name, compressor in few_bits_for(problem.support).items():
        candidates += _few_bits(problem, f"EF21 {name}", compressor, start, pace)
    return sorted(candidates, key=lambda plan: plan.price)


def few_bits_for(support: Support) -> dict[str, FewBits]:
    """What is planned, by name: 4, 6 and 8 bits, 4 bits in blocks where a client has more entries than powers of two can
    share a unit for, and the equally spaced levels that keep DGD's rounds whatever c is.

    >>> import errorfeedback as ef
    >>> list(few_bits_for(ef.synthetic(n=10, d=20, m=3, c=5).support))
    ['PowersOfTwo(4)', 'SmallFloat(3, 2)', 'SmallFloat(4, 3)', 'Uniform(8)', 'Uniform(8) in blocks']
    """
    few = min(ceil(6 + log2(support.c) / 2), MOST_BITS)  # docs/theory.md, section 7
    return {
        "PowersOfTwo(4)": PowersOfTwo(4),
        **({"PowersOfTwo(4) in blocks": PowersOfTwo(4, block=BLOCK)} if support.r > BLOCK else {}),
        "SmallFloat(3, 2)": SmallFloat(3, 2),
        "SmallFloat(4, 3)": SmallFloat(4, 3),
        "Uniform(8)": Uniform(8),
        f"Uniform({few}) in blocks": Uniform(few, block=BLOCK),
    }


def _marina(problem: Problem, levels: Sequence[int], start: Origin, pace: Pace | None) -> Iterator[Plan]:
    """The better rule for every K: independent draws have two theorems."""
    both: list[Fixed] = [MarinaAB(), MarinaIndependent()]
    options = [Option(f"MARINA Rand{k}", MARINA(RandK(k)), k) for k in levels]
    for option, rules_for in [*((option, both) for option in options), (Option("MARINA PermK", MARINA(PermK())), both[:1])]:
        theory = analyse(problem, option.method.compressor)
        yield min((plan(theory, option, rule, start, pace) for rule in rules_for), key=lambda plan: plan.price)


def _ef21(problem: Problem, k: int, start: Origin, pace: Pace | None) -> Iterator[Plan]:
    both = [Option(f"EF21 Top{k}", EF21(TopK(k), "gradient"), k), Option(f"EF21 Top{k}{ZERO}", EF21(TopK(k)), k)]
    return _with_rules(analyse(problem, TopK(k)), both, start, pace)


def _few_bits(problem: Problem, name: str, compressor: FewBits, start: Origin, pace: Pace | None) -> Iterator[Plan]:
    both = [Option(name, EF21(compressor, "gradient")), Option(f"{name}{COMPRESSED}", EF21(compressor, "compressed"))]
    return _with_rules(analyse(problem, compressor), both, start, pace)


def _with_rules(theory: Theory, options: Sequence[Option], start: Origin, pace: Pace | None) -> Iterator[Plan]:
    """The cheapest of the options for every rule that applies."""
    for rule in rules(options[0].method):
        if not rule.missing(theory):
            yield min((plan(theory, option, rule, start, pace) for option in options), key=lambda plan: plan.price)
