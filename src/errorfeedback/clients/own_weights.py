"""What clients say at the end of features that were left to them (`problems.reduced`): their weights, in 16 bits each and a
unit for every client. The rounding, 2^-11 of a weight at most, leaves about 2^-22 of what the model gains.
"""

from __future__ import annotations

import numpy as np

from errorfeedback.core import Floats, Integers, Model
from errorfeedback.problems.base import Problem
from errorfeedback.problems.reduced import Reduced
from errorfeedback.problems.scaling import Scaled
from errorfeedback.wire.codebook import Codebook

WORDS = Codebook(16, 10)


def own_weights(problem: Problem, z: Model) -> tuple[Integers, Floats]:
    """The columns and the weights of one place's clients, in the units of the data, where the solver has come to z."""
    inner, x = (problem.inner, Model(problem.scale * z)) if isinstance(problem, Scaled) else (problem, z)
    if not isinstance(inner, Reduced):
        return np.empty(0, dtype=np.int64), np.empty(0)
    columns, weights, counts = inner.own_parts(x)
    return columns, WORDS.rounded(weights, counts)[0]


def own_bits(problem: Reduced) -> int:
    """What saying it takes, of all these clients."""
    return int(problem.recluses.sum()) * WORDS.unit_bits + int(problem.own.sum()) * WORDS.each
