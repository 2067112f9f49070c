"""How rare are the features? The facts about a problem that decide whether error feedback helps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from errorfeedback.core import Floats, Integers
from errorfeedback.problems.base import Problem
from errorfeedback.problems.glm import GLM
from errorfeedback.problems.scaling import Scaled
from errorfeedback.sparsity.support import Support

SHOWN = 5
"""Features named at either end."""
SPREAD, BINS = 8, 10
"""Values within a factor of SPREAD are shown in BINS equal bins."""
PATTERN = 300
"""The pattern is drawn with at most that many rows and columns."""


@dataclass(frozen=True)
class Feature:
    """A feature and how many clients own it."""

    name: str
    clients: int


@dataclass(frozen=True, eq=False)
class Census:
    """n, d, rows, nonzeros, c, r, and who owns what."""

    title: str
    n: int
    d: int
    dropped: int
    rows: int
    discarded_rows: int
    nonzeros: int
    c: int
    r: int
    counts: Integers
    """(d,): |I_j|."""
    sizes: Integers
    """(n,): |J_i|."""
    rarest: list[Feature]
    commonest: list[Feature]

    @property
    def rarity(self) -> dict[str, int]:
        """How many features are owned by 1, 2, 3-4, ... clients."""
        return histogram(self.counts)

    @property
    def holdings(self) -> dict[str, int]:
        """How many clients own 1, 2, 3-4, ... features."""
        return histogram(self.sizes)

    def json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            **{name: getattr(self, name) for name in ("n", "d", "dropped", "rows", "discarded_rows", "nonzeros", "c", "r")},
            "c_over_n": self.c / self.n,
            "r_over_d": self.r / self.d,
            "features_by_clients": self.rarity,
            "clients_by_features": self.holdings,
            "rarest": [vars(f) for f in self.rarest],
            "commonest": [vars(f) for f in self.commonest],
        }


def histogram(values: Integers) -> dict[str, int]:
    """How many values are 1, 2, 3-4, 5-8, ... (doubling bins); equal bins where all values are of one order.

    >>> histogram(np.array([1, 1, 3, 20])), histogram(np.array([30, 31, 31]))
    ({'1': 2, '2': 0, '3-4': 1, '5-8': 0, '9-16': 0, '17-20': 1}, {'30': 1, '31': 2})
    """
    least, largest = int(values.min()), int(values.max())
    if largest <= SPREAD * least:
        ends = np.unique(np.linspace(least, largest, min(BINS, largest - least + 1)).round().astype(int))
    else:
        ends = np.array([*(2**e for e in range((largest - 1).bit_length())), largest])
        least = 1
    starts = np.array([least, *(ends[:-1] + 1)])
    heights, _ = np.histogram(values, np.array([least, *(ends + 1)]) - 0.5)
    labels = [str(hi) if lo == hi else f"{lo}-{hi}" for lo, hi in zip(starts, ends, strict=True)]
    return dict(zip(labels, heights.tolist(), strict=True))


def census(problem: Problem, names: Sequence[str] | None = None) -> Census:
    """Count. `names`: what the columns of the data are called."""
    support = problem.support
    order = np.argsort(support.counts, kind="stable")
    label = _labels(problem, names)
    rows = rows_of(problem)
    return Census(
        title=str(problem),
        n=problem.n,
        d=problem.d,
        dropped=problem.dropped_features,
        rows=int(rows.A.shape[0]),
        discarded_rows=rows.discarded_rows,
        nonzeros=int(rows.A.nnz),
        c=support.c,
        r=support.r,
        counts=support.counts,
        sizes=support.sizes,
        rarest=[Feature(label(j), int(support.counts[j])) for j in order[:SHOWN]],
        commonest=[Feature(label(j), int(support.counts[j])) for j in order[::-1][:SHOWN]],
    )


def rows_of(problem: Problem) -> GLM:
    """The rows behind a problem."""
    if isinstance(problem, Scaled):
        return rows_of(problem.inner)
    if isinstance(problem, GLM):
        return problem
    raise ValueError(f"inspect reads generalised linear models, and {type(problem).__name__} is not one")


def _labels(problem: Problem, names: Sequence[str] | None) -> Callable[[int], str]:
    """Feature number -> name."""
    if names is not None and len(names) != problem.width:
        raise ValueError(f"{len(names)} names for {problem.width} columns; give one per column (the intercept is the last)")

    def label(j: int) -> str:
        column = int(problem.columns[j])
        if names is not None:
            return str(names[column])
        feature, output = divmod(column, problem.support.outputs)
        intercept = isinstance(problem, GLM) and problem.intercept and column >= problem.width - problem.support.outputs
        name = "intercept" if intercept else f"column {feature}"
        return name if problem.support.outputs == 1 else f"{name}, class {output}"

    return label


def pattern(support: Support, most: int = PATTERN) -> Floats:
    """The share of owned pairs in each cell of a picture of at most `most` clients by `most` features (figure 5)."""
    rows, columns = min(most, support.n), min(most, support.d)
    client = np.repeat(np.arange(support.n), support.sizes) * rows // support.n
    feature = support.indices.astype(np.int64) * columns // support.d
    owned = np.bincount(client * columns + feature, minlength=rows * columns).reshape(rows, columns)
    height = np.bincount(np.arange(support.n) * rows // support.n, minlength=rows)
    width = np.bincount(np.arange(support.d) * columns // support.d, minlength=columns)
    return np.asarray(owned / np.outer(height, width))
