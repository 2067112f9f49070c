"""Who takes part: gradient descent, EF21 with every rule, MARINA and EF14; or, for a quick trial, what `train` can do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from errorfeedback import stepsizes
from errorfeedback.compressors.base import Contractive
from errorfeedback.compressors.rand_k import RandK
from errorfeedback.compressors.top_k import TopK
from errorfeedback.methods.base import Method
from errorfeedback.methods.dgd import DGD
from errorfeedback.methods.ef14 import EF14
from errorfeedback.methods.ef21 import EF21
from errorfeedback.methods.marina import MARINA
from errorfeedback.planner.contest import AUTOMATIC, Contestant
from errorfeedback.planner.network import Network
from errorfeedback.planner.recipe import few_bits
from errorfeedback.problems.base import Problem
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.registry import members, required
from errorfeedback.runtime.begin import Begin
from errorfeedback.stepsizes.automatic import Automatic
from errorfeedback.stepsizes.base import Fixed, StepSize
from errorfeedback.stepsizes.best import Best
from errorfeedback.stepsizes.constant import Constant
from errorfeedback.stepsizes.inverse_L import InverseL
from errorfeedback.theory.analysis import analyse

Compress = Callable[[int], Contractive]
"""K -> the compressor of EF21 and EF14."""
BY_DEFAULT = "EF21 in few bits, quasi-Newton"
TOLERANCE = 1e-5
"""Of `train`, where nobody says another."""
LEVELS = 6
"""Values of K that a trial takes between 1 and r."""


def everybody(problem: Problem, levels: Sequence[int] | None = None, compress: Compress = TopK) -> Iterator[Contestant]:
    """Every method with every rule that is made for it; rules that agree on gamma are one. EF14 has no rule and gets 1/L.
    Without `levels`: all of them with K = 1, and what a trial runs."""
    yield from _with_rules(problem, "GD", DGD())
    if levels is None:
        yield from (trainable(k, compress) for k in spaced(problem.support.r) if k > 1)
    for k in levels or [1]:
        top = compress(k)
        yield from _with_rules(problem, f"EF21 Top{k}", EF21(top))
        yield from _with_rules(problem, f"MARINA Rand{k}", MARINA(RandK(k)))
        for name, method in ((f"EF21 Top{k}", EF21(top)), (f"EF14 Top{k}", EF14(top))):
            yield Contestant(f"{name}, 1/L", method, Constant(1.0 / analyse(problem).L))


def _with_rules(problem: Problem, label: str, method: Method) -> Iterator[Contestant]:
    bound, theory = method.bind(problem.support), analyse(problem, method.compressor)
    same: dict[str, tuple[list[str], StepSize]] = {}
    for name, kind in members(stepsizes, StepSize).items():  # type: ignore[type-abstract]
        if kind is not Best and not required(kind) and kind.speaks_of(method):
            rule = kind()
            key = f"{rule.gamma(theory, bound):.12g}" if isinstance(rule, Fixed) else name
            same.setdefault(key, ([], rule))[0].append(name)
    for names, rule in same.values():
        yield Contestant(f"{label}, {' = '.join(names)}", method, rule)


def by_default(
    problem: Problem,
    prox: ElasticNet | None = None,
    networks: Sequence[Network] | None = None,
    begin: Begin | None = None,
) -> Contestant:
    """What `errorfeedback train` runs where nobody names K."""
    recipe = few_bits(problem, networks, TOLERANCE, begin, prox)
    how = (recipe.method, recipe.stepsize, recipe.direction, recipe.downlink)
    return Contestant(BY_DEFAULT, *how, BY_DEFAULT, AUTOMATIC, recipe.begin)


def trainable(k: int, compress: Compress = TopK) -> Contestant:
    """What `errorfeedback train --k K` runs."""
    return Contestant(f"EF21 Top{k}, Automatic", EF21(compress(k)), Automatic())


def in_practice(default: Contestant, levels: Sequence[int], compress: Compress = TopK) -> Iterator[Contestant]:
    """Gradient descent with 1/L, and EF21 as `train` runs it, by default and with every K."""
    yield Contestant("GD, InverseL", DGD(), InverseL())
    yield default
    yield from (trainable(k, compress) for k in levels)


def spaced(r: int) -> list[int]:
    """A few K from 1 to r, where EF21 sends everything and is gradient descent.

    >>> spaced(124), spaced(3)
    ([1, 3, 7, 18, 47, 124], [1, 2, 3])
    """
    return sorted({int(k) for k in np.geomspace(1, r, LEVELS).round()})
