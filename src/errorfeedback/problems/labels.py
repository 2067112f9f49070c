"""Labels of rows -> classes: any values, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

SHOWN = 5
"""Classes that an error names."""


def numbered(y: ArrayLike, classes: Sequence[Any] | None = None) -> tuple[NDArray[Any], tuple[Any, ...]]:
    """The number of every row's class, and the classes: those of the labels, or those that are named where the rows at hand
    need not have all.

    >>> numbered(["b", "a", "b"])
    (array([1, 0, 1]), ('a', 'b'))
    """
    labels = np.asarray(y)
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError(f"y[{int(np.flatnonzero(np.isnan(labels))[0])}] is nan; every row needs a label")
    known = np.unique(labels) if classes is None else np.asarray(classes)
    order = np.argsort(known, kind="stable")
    place = np.minimum(np.searchsorted(known, labels, sorter=order), len(known) - 1)
    code = order[place]
    unknown = np.flatnonzero(known[code] != labels)
    if len(unknown):
        raise ValueError(f"y has the value {labels[unknown[0]]}, which is none of the classes {shown(known.tolist())}")
    return code, tuple(known.tolist())


def shown(classes: Sequence[Any]) -> str:
    """The classes, or the first of many."""
    return ", ".join(map(str, classes[:SHOWN])) + (", ..." if len(classes) > SHOWN else "")
