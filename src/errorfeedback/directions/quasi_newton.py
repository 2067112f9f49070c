"""What quasi-Newton directions share: pairs of steps and changes of the gradient, and BFGS matrices made of them.

    s = x - x_last,   y = g - g_last,   H+ = (I - s y'/s'y) H (I - y s'/s'y) + s s'/s'y,   H0 = scale * metric,

with scale = s'y / (y' metric y) of the newest pair. A pair enters where s'y > 1e-8 ||s|| ||y||, so H stays positive definite
whatever the errors of g are: H g is a direction of descent for the estimate. From a refused point a pair enters only where
||g|| <= 1e4 ||g_last||: a loss that grows like exp has gradients of any size out there, which say nothing of the curvature
at x_last, and steps made for them would be too short to be told from standing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numba
import numpy as np

from errorfeedback.core import Floats, Model
from errorfeedback.sums import dot

CURVED = 1e-8
"""The least cosine between s and y."""
FARTHEST = 1e4
"""The longest gradient at a refused point, in lengths of the one where the step began."""
SHORTER, SHORTEST = 0.25, 1e-150
"""H0 of a standing round, as a share of the one that led nowhere; and the least, whose inverse is still a number."""
TINY = float(np.finfo(np.float64).tiny)
"""What products of pairs must exceed: smaller ones have lost digits."""


class Metric(ABC):
    """A positive definite matrix on the server."""

    @abstractmethod
    def solve(self, v: Floats) -> Floats:
        """metric v."""

    @abstractmethod
    def times(self, v: Floats) -> Floats:
        """metric^-1 v."""

    def products(self, known: Secants) -> Floats:
        """(pairs, pairs): all s_a' metric^-1 s_b."""
        return np.array([known.along(self.times(row)) for row in known.s])


class Plain(Metric):
    """The identity."""

    def products(self, known: Secants) -> Floats:
        return known.ss

    def solve(self, v: Floats) -> Floats:
        return v

    def times(self, v: Floats) -> Floats:
        return v


@dataclass(frozen=True, eq=False)
class Pairs:
    """The memory: where the last accepted point was, and what is known of the curvature."""

    x: Model
    g: Model | None = None
    known: Secants | None = None
    scale: float | None = None
    """Of H0; None: nothing is known yet."""

    def arrived(self, x: Model, g: Model, metric: Metric, memory: int) -> Pairs:
        """At an accepted point. The same x again (the clients were asked once more) forgets all pairs: they led nowhere."""
        if np.array_equal(x, self.x):
            return Pairs(self.x, Model(g.copy()), scale=None if self.scale is None else max(SHORTER * self.scale, SHORTEST))
        return replace(self.learned(x, g, metric, memory), x=Model(x.copy()), g=Model(g.copy()))

    def corrected(self, news: Model) -> Pairs:
        """y is made of those who told at both ends of a step alone (Berahas, Nocedal and Takac 2016)."""
        return self if self.g is None else replace(self, g=Model(self.g + news))

    def refused(self, x: Model, g: Model, metric: Metric, memory: int) -> Pairs:
        """At a refused point: with what it says of the curvature where the step began."""
        if self.g is None or not dot(g, g) <= FARTHEST**2 * dot(self.g, self.g):
            return self
        return self.learned(x, g, metric, memory)

    def learned(self, x: Model, g: Model, metric: Metric, memory: int) -> Pairs:
        """With the pair between the last accepted point and this one, where it says something."""
        if self.g is None:
            return self
        s, y = np.subtract(x, self.x, dtype=np.float64), np.subtract(g, self.g, dtype=np.float64)
        sy, ss, yy = dot(s, y), dot(s, s), dot(y, y)
        if not (sy > max(CURVED * ss**0.5 * yy**0.5, TINY) and min(ss, yy) > TINY and np.isfinite(yy)):
            return self
        known = (NONE if self.known is None else self.known).joined(s, y, memory)
        return replace(self, known=known, scale=sy / dot(y, metric.solve(y)))

    def towards(self, metric: Metric) -> Model:
        """H g by the two loops (Nocedal 1980)."""
        assert self.g is not None, "a round has been"
        q, known = self.g.astype(np.float64), self.known
        shares = [] if known is None else known.back(q)
        q = q if self.scale is None else self.scale * metric.solve(q)
        if known is not None:
            known.forth(q, shares)
        return Model(q.astype(self.g.dtype, copy=False))

    def quadratic(self, metric: Metric) -> Callable[[Model], float] | None:
        """v -> v' B v, B = H^-1, in the compact form of Byrd, Nocedal and Schnabel (1994)."""
        if self.scale is None:
            return None
        b, known = 1.0 / self.scale, self.known
        if known is None:
            return lambda v: b * dot(v, metric.times(v))
        below, sbs = np.tril(known.sy, -1), b * metric.products(known)
        try:
            middle = np.linalg.inv(np.block([[sbs, below], [below.T, -np.diag(np.diag(known.sy))]]))
        except np.linalg.LinAlgError:  # pairs that differ by rounding alone
            return lambda v: b * dot(v, metric.times(v))

        def form(v: Model) -> float:
            bent = b * metric.times(v)
            w = np.concatenate([known.along(bent), known.across(v)])
            return float(dot(v, bent) - w @ middle @ w)

        return form


@dataclass(frozen=True, eq=False)
class Secants:
    """Pairs, the oldest first. A vector is never copied: a long model has many millions of numbers in its pairs."""

    s: tuple[Floats, ...] = ()
    y: tuple[Floats, ...] = ()
    sy: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """(pairs, pairs): s_a' y_b where b is not newer than a, and 0 elsewhere: all that B and H are made of."""
    ss: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """(pairs, pairs): all s_a' s_b."""

    def joined(self, s: Floats, y: Floats, memory: int) -> Secants:
        """With one more, and the oldest left out where there are more than `memory`."""
        one = Secants((*self.s, s)[-memory:], (*self.y, y)[-memory:])
        sy, ss = one.across(s), one.along(s)
        above = np.append(np.zeros(len(sy) - 1), sy[-1])
        return replace(one, sy=_bordered(self.sy, sy, above), ss=_bordered(self.ss, ss, ss))

    def along(self, v: Floats) -> Floats:
        """All s_a' v."""
        return np.array([dot(row, v) for row in self.s])

    def across(self, v: Floats) -> Floats:
        """All y_a' v."""
        return np.array([dot(row, v) for row in self.y])

    def back(self, q: Floats) -> list[float]:
        """The first loop, from the newest pair to the oldest, in place."""
        pairs = zip(self.s, self.y, np.diag(self.sy), strict=True)
        return [_back(q, s, y, sy) for s, y, sy in reversed(list(pairs))][::-1]

    def forth(self, q: Floats, shares: list[float]) -> None:
        """The second loop, from the oldest to the newest."""
        for s, y, sy, share in zip(self.s, self.y, np.diag(self.sy), shares, strict=True):
            _forth(q, s, y, sy, share)


PLAIN, NONE = Plain(), Secants()


def _bordered(table: Floats, row: Floats, column: Floats) -> Floats:
    """The end of the table with one more row and column."""
    kept = len(row) - 1
    out = np.empty((kept + 1, kept + 1))
    out[:-1, :-1] = table[len(table) - kept :, len(table) - kept :]
    out[-1], out[:, -1] = row, column
    return out


@numba.njit(cache=True, nogil=True)
def _back(q: Floats, s: Floats, y: Floats, sy: float) -> float:
    share: float = dot(s, q) / sy
    for j in range(len(q)):
        q[j] -= share * y[j]
    return share


@numba.njit(cache=True, nogil=True)
def _forth(q: Floats, s: Floats, y: Floats, sy: float, share: float) -> None:
    rest = share - dot(y, q) / sy
    for j in range(len(q)):
        q[j] += rest * s[j]
