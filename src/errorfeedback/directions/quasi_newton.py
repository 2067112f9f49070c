"""What quasi-Newton directions share: pairs of steps and changes of the gradient, and BFGS matrices made of them.

    s = x - x_last,   y = g - g_last,   H+ = (I - s y'/s'y) H (I - y s'/s'y) + s s'/s'y,   H0 = scale * metric,

with scale = s'y / (y' metric y) of the newest pair. A pair enters where s'y > 1e-8 ||s|| ||y||, so H stays positive definite
whatever the errors of g are: H g is a direction of descent for the estimate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numba
import numpy as np

from errorfeedback.core import Floats, Model
from errorfeedback.sums import dot, dots

CURVED = 1e-8
"""The least cosine between s and y."""
SHORTER = 0.25
"""H0 of a standing round, as a share of the one that led nowhere."""


class Metric(ABC):
    """A positive definite matrix on the server."""

    @abstractmethod
    def solve(self, v: Floats) -> Floats:
        """metric v."""

    @abstractmethod
    def times(self, v: Floats) -> Floats:
        """metric^-1 v."""


class Plain(Metric):
    """The identity."""

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
            return Pairs(self.x, Model(g.copy()), scale=None if self.scale is None else SHORTER * self.scale)
        return replace(self.learned(x, g, metric, memory), x=Model(x.copy()), g=Model(g.copy()))

    def learned(self, x: Model, g: Model, metric: Metric, memory: int) -> Pairs:
        """With the pair between the last accepted point and this one, where it says something."""
        if self.g is None:
            return self
        s, y = np.subtract(x, self.x, dtype=np.float64), np.subtract(g, self.g, dtype=np.float64)
        sy, ss, yy = dot(s, y), dot(s, s), dot(y, y)
        if not (sy > CURVED * (ss * yy) ** 0.5 and np.isfinite(yy)):
            return self
        first = Secants(s[None, :], y[None, :], np.array([[sy]]))
        known = first if self.known is None else self.known.joined(s, y, memory)
        return replace(self, known=known, scale=sy / dot(y, metric.solve(y)))

    def towards(self, metric: Metric) -> Model:
        """H g by the two loops (Nocedal 1980)."""
        assert self.g is not None, "a round has been"
        q, known = self.g.astype(np.float64), self.known
        shares = None if known is None else _back(q, known.s, known.y, known.sy)
        q = q if self.scale is None else self.scale * metric.solve(q)
        if known is not None and shares is not None:
            _forth(q, known.s, known.y, known.sy, shares)
        return Model(q.astype(self.g.dtype, copy=False))

    def quadratic(self, metric: Metric) -> Callable[[Model], float] | None:
        """v -> v' B v, B = H^-1, in the compact form of Byrd, Nocedal and Schnabel (1994)."""
        if self.scale is None:
            return None
        b, known = 1.0 / self.scale, self.known
        if known is None:
            return lambda v: b * dot(v, metric.times(v))
        bs = np.array([b * metric.times(row) for row in known.s])
        below, sbs = np.tril(known.sy, -1), np.array([dots(known.s, row) for row in bs])
        middle = np.linalg.inv(np.block([[sbs, below], [below.T, -np.diag(np.diag(known.sy))]]))

        def form(v: Model) -> float:
            w = np.concatenate([dots(bs, v), dots(known.y, v)])
            return float(b * dot(v, metric.times(v)) - w @ middle @ w)

        return form


@dataclass(frozen=True, eq=False)
class Secants:
    """Pairs, the oldest first."""

    s: Floats
    """(pairs, d)"""
    y: Floats
    sy: Floats
    """(pairs, pairs): all s_a' y_b."""

    def joined(self, s: Floats, y: Floats, memory: int) -> Secants:
        """With one more, and the oldest left out where there are more than `memory`."""
        steps, changes = np.vstack([self.s, s])[-memory:], np.vstack([self.y, y])[-memory:]
        table = np.empty((len(steps), len(steps)))
        kept = len(self.s) + 1 - len(steps)
        table[:-1, :-1] = self.sy[kept:, kept:]
        table[-1], table[:, -1] = dots(changes, s), dots(steps, y)
        return Secants(steps, changes, table)


PLAIN = Plain()


@numba.njit(cache=True, nogil=True)
def _back(q: Floats, s: Floats, y: Floats, sy: Floats) -> Floats:
    """The first loop, from the newest pair to the oldest."""
    shares = np.empty(len(s))
    for k in range(len(s) - 1, -1, -1):
        shares[k] = dot(s[k], q) / sy[k, k]
        for j in range(len(q)):
            q[j] -= shares[k] * y[k, j]
    return shares


@numba.njit(cache=True, nogil=True)
def _forth(q: Floats, s: Floats, y: Floats, sy: Floats, shares: Floats) -> None:
    """The second loop, from the oldest to the newest."""
    for k in range(len(s)):
        rest = shares[k] - dot(y[k], q) / sy[k, k]
        for j in range(len(q)):
            q[j] += rest * s[k, j]
