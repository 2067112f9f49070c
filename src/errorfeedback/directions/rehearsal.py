"""Kernels of quasi-Newton steps are compiled before the clock of a run: five pairs in two dimensions, and their steps."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from errorfeedback.core import Model
from errorfeedback.directions.quasi_newton import PLAIN, Pairs, nothing_known


def rehearse(x: Model, kinked: bool) -> None:
    """All that a model of this length, type and penalty needs."""
    _rehearsed(x.dtype, kinked, nothing_known(x).single)


@lru_cache(maxsize=8)
def _rehearsed(dtype: np.dtype[Any], kinked: bool, single: bool) -> None:
    """For few pairs and for many of them."""
    pairs = Pairs(Model(np.zeros(2, dtype)), l1=Model(np.full(2, 0.1, dtype)) if kinked else None, single=single)
    for x in np.array([[0.0, 0.0], [1.0, 0.5], [1.0, 2.0], [2.0, 3.0], [3.0, 5.0], [5.0, 4.0]], dtype):
        pairs = pairs.arrived(Model(x), Model(x * np.array([1.0, 2.0], dtype) + 1), PLAIN, 5)
        direction, pairs = pairs.aimed(PLAIN)
        model = pairs.quadratic(PLAIN)
        if model is not None:
            model.along(direction)
            model.forms([direction])
            model.forms([direction, direction])
