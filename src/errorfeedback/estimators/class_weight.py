"""What a row of each class counts, as scikit-learn's `class_weight` says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import Floats

BALANCED = "balanced"


@dataclass(frozen=True)
class ClassWeight:
    """The rule for the parameter."""

    def allows(self, value: Any) -> bool:
        if isinstance(value, Mapping):
            return all(isinstance(w, Real) and isfinite(w) and float(w) >= 0 for w in value.values())
        return value is None or (isinstance(value, str) and value == BALANCED)

    def __str__(self) -> str:
        return f"None, {BALANCED!r}, or a dict from classes to finite weights of at least 0"


def class_weights(asked: str | Mapping[Any, float] | None, classes: NDArray[Any], rows: Floats) -> Floats:
    """One weight per class; `rows` has the weight of all rows of each. "balanced": all rows / (classes x rows of the class).

    >>> class_weights("balanced", np.array(["no", "yes"]), np.array([30.0, 10.0])).round(3).tolist()
    [0.667, 2.0]
    """
    if asked is None:
        return np.ones(len(classes))
    if isinstance(asked, str):
        return np.asarray(rows.sum() / (len(classes) * rows))
    known = classes.tolist()
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise ValueError(f"class_weight names the class {unknown[0]!r}; the classes are {', '.join(map(repr, known))}")
    weights = np.array([float(asked.get(name, 1.0)) for name in known])
    if not np.sum(rows * weights) > 0:
        raise ValueError(f"class_weight = {dict(asked)} leaves no weight to any row; give a class a weight above 0")
    return weights
