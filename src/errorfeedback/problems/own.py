"""Your own f_i: what is known of a problem whose clients are functions of the user, f(x) = (1/n) sum_i f_i(x on J_i).

Nothing bounds their curvature unless the user does (`smoothness=`) or lets it be estimated (`Estimated`), and then no
certificate says that a theorem held. A checkpoint does not hold them: it knows them again by what they answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from errorfeedback.core import Floats, Integers, PerClient, PerColumn
from errorfeedback.problems.base import Bounded, CurvatureBound, Normed, Problem
from errorfeedback.sparsity.support import Support

WITHOUT = "use ef.Constant(gamma), ef.Automatic() or ef.Armijo(), which need none"


@dataclass(frozen=True, eq=False)
class KnownNorms:
    """L_i of every client, and whether they are guesses."""

    L_i: PerClient
    estimated: bool

    def shard(self, lo: int, hi: int) -> KnownNorms:
        return KnownNorms(PerClient(self.L_i[lo:hi]), self.estimated)


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class OwnProblem(Problem, Bounded, Normed):
    """What problems of the user's own functions have in common."""

    first_point: PerColumn
    """Where a run starts unless it is told otherwise."""
    floor: float = -inf
    """What f never goes below."""
    known: KnownNorms | None = None
    """The clients' smoothness, where somebody said or guessed it."""

    @property
    def x0(self) -> PerColumn:
        return self.first_point

    @property
    def lower_bound(self) -> float:
        return self.floor

    @property
    def bounded(self) -> bool:
        return self.known is not None

    @property
    def estimated(self) -> bool:
        return self.known is not None and self.known.estimated

    @property
    def norms(self) -> PerClient:
        if self.known is None:
            raise ValueError(
                f"{type(self).__name__} has no known bound on its curvature, and what was asked for needs one; {WITHOUT}, "
                "or give smoothness= every client's L_i (ef.Estimated() guesses them)"
            )
        return self.known.L_i

    @property
    def norms_from(self) -> str:
        return "estimated, which bounds nothing" if self.estimated else "bound (given)"

    def curvature(self) -> CurvatureBound:
        raise ValueError(
            f"of the curvature of {type(self).__name__} at most every client's L_i is known, and what was asked for needs "
            f"the rows of a linear model; {WITHOUT}, or, with smoothness=, a rule that needs no more than the L_i "
            "(InverseL, EF21Standard, RareFeatures, Weighted)"
        )


def owned_support(owned: Sequence[ArrayLike], width: int) -> tuple[Support, Integers]:
    """The support of clients that own these columns, and the columns that somebody owns.

    >>> support, columns = owned_support([[0, 3], [3]], width=5)
    >>> support.indices.tolist(), columns.tolist()
    ([0, 1, 1], [0, 3])
    """
    each = [_checked_features(i, np.asarray(J), width) for i, J in enumerate(owned)]
    every = np.concatenate(each)
    columns = np.unique(every)
    kind = np.int32 if len(columns) < 2**31 else np.int64
    indptr = np.concatenate([[0], np.cumsum([len(J) for J in each])])
    return Support(indptr, np.searchsorted(columns, every).astype(kind), len(columns)), columns


def _checked_features(client: int, J: Integers, width: int) -> Integers:
    if J.ndim != 1 or (len(J) and J.dtype.kind not in "iu"):
        raise ValueError(f"supports[{client}] has shape {J.shape} of {J.dtype}; it must be a list of feature numbers")
    if not len(J):
        raise ValueError(f"client {client} owns no feature; drop it or give it some")
    if J.min() < 0 or J.max() >= width:
        outside = int(J[(J < 0) | (width <= J)][0])
        raise ValueError(f"supports[{client}] has the feature {outside}; they are numbered from 0 to d - 1 = {width - 1}")
    if (np.diff(J) <= 0).any():
        raise ValueError(f"supports[{client}] is not in ascending order without repetition; np.unique(...) makes it so")
    return J.astype(np.int64)


def checked_point(name: str, x: ArrayLike | None, width: int) -> PerColumn:
    """A point with one finite entry per column; zeros where there is none."""
    if x is None:
        return np.zeros(width)
    point: Floats = np.array(x, dtype=np.float64)
    if point.shape != (width,):
        raise ValueError(f"{name} has shape {point.shape}; it needs one entry per feature, ({width},)")
    if not np.isfinite(point).all():
        raise ValueError(f"{name}[{int(np.flatnonzero(~np.isfinite(point))[0])}] is not finite")
    return point
