"""Everything registered, for tests that run over all of it: a new file joins by itself.

`ERRORFEEDBACK_TESTS=all python -m pytest` takes every combination where `covering` takes some.
"""

from __future__ import annotations

import os
from itertools import groupby, product
from math import ceil

import pytest

import errorfeedback as ef
from errorfeedback import compressors, directions, downlinks, methods, stepsizes
from errorfeedback.compressors.base import Compressor
from errorfeedback.directions.base import Direction
from errorfeedback.downlinks.base import Downlink
from errorfeedback.methods.base import Method
from errorfeedback.registry import members
from errorfeedback.stepsizes.base import StepSize

COMPRESSORS = [c for cls in members(compressors, Compressor).values() for c in cls.examples()]
METHODS = [m for cls in members(methods, Method).values() for m in cls.examples(COMPRESSORS)]
RULES = members(stepsizes, StepSize)
DOWNLINKS = [d for cls in members(downlinks, Downlink).values() for d in cls.examples()]
DIRECTIONS = [d for cls in members(directions, Direction).values() for d in cls.examples()]


def fits(method, problem):
    """Whether the problem has what the method asks for; where it has not, it is refused and says so."""
    if not method.lacking(problem):
        return True
    with pytest.raises(ValueError, match="does not fit the problem: it needs"):
        ef.solve(problem, method, ef.Constant(0.01), rounds=1)
    return False


def covering(methods, others):
    """Some (method, other): every method meets at least one of the others, and every class of methods meets all of them.

    Two instances of a class differ in the compressor, which begins elsewhere in the next class: what goes wrong for a class
    or a compressor alone is met, what goes wrong for one triple alone may be missed.
    """
    others = list(others)
    if os.environ.get("ERRORFEEDBACK_TESTS") == "all":
        return list(product(methods, others))
    pairs = []
    for turn, (_, group) in enumerate(groupby(methods, key=type)):
        same = list(group)
        each = ceil(len(others) / len(same))
        pairs += [
            (method, others[(turn + each * k + j) % len(others)]) for k, method in enumerate(same) for j in range(each)
        ]
    return pairs
