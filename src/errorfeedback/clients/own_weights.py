"""What clients say at the end of features that were left to them (`problems.reduced`): their weights, in 16 bits each and a
unit for every client. The rounding, 2^-11 of a weight at most, leaves about 2^-22 of what the model gains; where less than
that is to be left, in 24 bits (2^-36).
"""

from __future__ import annotations

import numpy as np

from errorfeedback.core import Floats, Integers, Model, PerClient
from errorfeedback.problems.base import Problem
from errorfeedback.problems.reduced import Reduced
from errorfeedback.problems.scaling import Scaled
from errorfeedback.wire.codebook import Codebook

WORDS = {16: Codebook(16, 10), 24: Codebook(24, 17)}


def bits_for(tolerance: float) -> int:
    """Of a weight, where that share of all progress may be left.

    >>> bits_for(1e-6), bits_for(1e-9)
    (16, 24)
    """
    return 16 if tolerance >= 2.0 ** (-2 * (WORDS[16].digits + 1)) else 24


def own_weights(problem: Problem, z: Model) -> tuple[Integers, Floats]:
    """The columns and the weights of one place's clients, in the units of the data, where the solver has come to z."""
    inner, x = (problem.inner, Model(problem.scale * z)) if isinstance(problem, Scaled) else (problem, z)
    if not isinstance(inner, Reduced):
        return np.empty(0, dtype=np.int64), np.empty(0)
    columns, weights, counts = inner.own_parts(x)
    return columns, WORDS[inner.weight_bits].rounded(weights, counts)[0]


def own_bits(problem: Reduced) -> PerClient:
    """What saying it takes, of every client."""
    words, sizes = WORDS[problem.weight_bits], problem.rows.support.sizes - problem.support.sizes
    return PerClient((sizes > 0) * words.unit_bits + words.each * sizes)
