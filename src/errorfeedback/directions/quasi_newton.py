"""What quasi-Newton directions share: pairs of steps and changes of the gradient, and BFGS matrices made of them.

    s = x - x_last,   y = g - g_last,   H+ = (I - s y'/s'y) H (I - y s'/s'y) + s s'/s'y,   H0 = scale * metric,

with scale = s'y / (y' metric y) of the newest pair, or, where the metric is the identity and the step was accepted, of
what is new in the pair (ours):

    scale = s'r / r'r,    r = y - Y c, c by least squares over the older pairs,

at least s'y / y'y and at most s's / s'y. H0 is what H does where no pair has been. A step that is told in few digits has a
part along the steepest directions, which older pairs know; it has hardly any length, and most of y: with y itself H0 would
be made for directions that never see it. A pair enters where s'y > 1e-8 ||s|| ||y||, so H stays positive definite
whatever the errors of g are: H g is a direction of descent for the estimate. From a refused point a pair enters only where
||g|| <= 1e4 ||g_last||: a loss that grows like exp has gradients of any size out there, which say nothing of the curvature
at x_last, and steps made for them would be too short to be told from standing.

    H g = r + S R^-T (D a - Y'r),   r = H0 (g - Y a),   a = R^-1 S'g,   R_ab = s_a'y_b (b not older than a), D its diagonal,

are the two loops of Nocedal (1980) with the pairs' products with each other in a table: solving with R goes from pair to
pair, and the long vectors are gone through by all pairs at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numba
import numpy as np
from scipy.linalg.lapack import dtrtrs

from errorfeedback.core import Floats, Integers, Model
from errorfeedback.directions.base import Promise
from errorfeedback.directions.coordinate_descent import Curved, Entries, Part, minimum
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.sums import Quadratic, Vector, add_multiples, dot, met, products

CURVED = 1e-8
"""The least cosine between s and y."""
FARTHEST = 1e4
"""The longest gradient at a refused point, in lengths of the one where the step began."""
SHORTER, SHORTEST = 0.25, 1e-150
"""H0 of a standing round, as a share of the one that led nowhere; and the least, whose inverse is still a number."""
LOST = 1e-9
"""A model whose minimum is that much above where it began, as a share of the fall that its slope promises, is none."""
ALIKE = 1e-3
"""The share of its length below which nothing is new in a vector."""
LONG = 2**17
"""Numbers of a model beyond which pairs do not stay in a cache. To read them from memory several times in a round is most of
what the server does, so they are kept in single precision: few-bit gradients have fewer digits. Products are in double."""
SMALL, LARGE = 1e-25, 1e25
"""Lengths of vectors that single precision can hold."""
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

    def length(self, known: Secants) -> float:
        """The scale of H0: s'y / (y' metric y)."""
        y = known.y[-1]
        return float(known.sy[-1, -1] / dot(y, self.solve(y)))

    def new_length(self, known: Secants) -> float:
        """The same after a step that was accepted."""
        return self.length(known)

    def doubt(self, step: Model) -> float:
        """The share of metric^-1's curvature along a step that stands for what is not known."""
        return 0.0

    def products(self, known: Secants) -> Floats:
        """(pairs, pairs): all s_a' metric^-1 s_b."""
        return products(known.s, [self.times(row) for row in known.s])

    def matrix(self, some: Integers, d: int) -> Floats:
        """metric^-1 on some of the d features."""
        made, unit = np.empty((len(some), len(some))), np.zeros(d)
        for row, j in zip(made, some, strict=True):
            unit[j] = 1.0
            row[:] = self.times(unit)[some]
            unit[j] = 0.0
        return made

    def beside_kinks(self, model: Compact, d: int) -> Curved:
        """The model with all its entries, pair by pair: the compact form cancels, and beside a penalty with kinks everything
        rests on its being positive definite."""
        matrix = model.b * self.matrix(np.arange(d), d)
        for pair in zip(model.known.s, model.known.y, strict=True):
            s, y = (v.astype(np.float64, copy=False) for v in pair)
            bent = matrix @ s
            curved = float(s @ bent)
            if curved > 0.0:
                matrix += np.outer(y, y / float(s @ y)) - np.outer(bent, bent / curved)
        return Entries(matrix)

    def meet(self, vectors: Sequence[Vector], known: Secants) -> tuple[Floats, Floats, Floats]:
        """v' metric^-1 v of all vectors, all s_a' metric^-1 v, and all y_a' v."""
        whole = [v[:] for v in vectors]
        bent = [self.times(v) for v in whole]
        lengths = np.array([dot(v, each) for v, each in zip(whole, bent, strict=True)])
        return lengths, products(known.s, bent), products(known.y, whole)


class Plain(Metric):
    """The identity."""

    def new_length(self, known: Secants) -> float:
        return known.new_length()

    def products(self, known: Secants) -> Floats:
        return known.ss

    def beside_kinks(self, model: Compact, d: int) -> Curved:
        return model

    def meet(self, vectors: Sequence[Vector], known: Secants) -> tuple[Floats, Floats, Floats]:
        (both, lengths), pairs = met((*known.s, *known.y), vectors), len(known.s)
        return lengths, both[:, :pairs], both[:, pairs:]

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
    l1: Model | None = None
    """What the penalty has beside its smooth part, where it has: sum_j l1_j |x_j|."""
    single: bool = False
    """Pairs are kept in single precision."""
    promised: Promise = field(default=Promise(0.0, 0.0))
    """By the last direction."""

    def arrived(self, x: Model, g: Model, metric: Metric, memory: int) -> Pairs:
        """At an accepted point. The same x again (the clients were asked once more) forgets all pairs: they led nowhere."""
        if np.array_equal(x, self.x):
            shorter = None if self.scale is None else max(SHORTER * self.scale, SHORTEST)
            return Pairs(self.x, Model(g.copy()), scale=shorter, l1=self.l1, single=self.single)
        here = replace(self.learned(x, g, metric, memory), x=Model(x.copy()), g=Model(g.copy()))
        if here.known is None or here.known is self.known:
            return here
        return replace(here, scale=metric.new_length(here.known))

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
        if self.single and all(SMALL**2 < dot(v, v) < LARGE**2 for v in (s, y)):
            s, y = s.astype(np.float32), y.astype(np.float32)
        sy, ss, yy = dot(s, y), dot(s, s), dot(y, y)
        if not (sy > max(CURVED * ss**0.5 * yy**0.5, TINY) and min(ss, yy) > TINY and np.isfinite(yy)):
            return self
        known = (NONE if self.known is None else self.known).joined(s, y, memory)
        return replace(self, known=known, scale=metric.length(known))

    def aimed(self, metric: Metric) -> tuple[Model, Pairs]:
        """The direction from the last accepted point, and the memory with what it promises."""
        assert self.g is not None, "a round has been"
        if self.l1 is None:
            direction = self.towards(metric)
            descent = dot(self.g, direction)
            promised = Promise(descent, 0.5 * descent)
        else:
            direction, promised = self._around_kinks(metric, self.l1, self.g)
        return direction, replace(self, promised=promised)

    def _around_kinks(self, metric: Metric, l1: Model, g: Model) -> tuple[Model, Promise]:
        """x - argmin of the model with the l1 part; the steepest descent where nothing is known yet."""
        rough, model = ElasticNet(l1), self.curved(metric)
        steepest = rough.shortest_subgradient(self.x, g)
        square = dot(steepest, steepest)
        if model is None:
            return steepest, Promise(square, 0.5 * square)
        direction = Model((self.x - minimum(self.x, g, l1, model)).astype(g.dtype, copy=False))
        descent = -rough.rise(self.x, Model(-direction), g)
        gap = descent - 0.5 * float(model.forms([direction])[0])
        if gap >= -LOST * abs(descent):
            return direction, Promise(descent, max(gap, 0.0))
        bent = float(model.forms([steepest])[0])  # rounding has left no minimum: to the lowest point of a line
        along = square / bent if bent > 0 else 1.0
        return Model((along * steepest).astype(g.dtype, copy=False)), Promise(along * square, 0.5 * along * square)

    def towards(self, metric: Metric) -> Model:
        """H g."""
        assert self.g is not None, "a round has been"
        q, known = self.g.astype(np.float64), NONE if self.known is None else self.known
        shares = known.back(q)
        if self.scale is not None:
            q = metric.solve(q)
            q *= self.scale
        known.forth(q, shares)
        return Model(q.astype(self.g.dtype, copy=False))

    def quadratic(self, metric: Metric) -> Quadratic | None:
        """What is believed of the curvature."""
        model = self.curved(metric)
        return None if model is None else Quadratic(model.forms, self.g)

    def curved(self, metric: Metric) -> Curved | None:
        """B; beside kinks as it is safest."""
        model = self.compact(metric)
        return model if model is None or self.l1 is None else metric.beside_kinks(model, len(self.x))

    def compact(self, metric: Metric) -> Compact | None:
        """B = H^-1; None where nothing is known yet."""
        if self.scale is None or self.g is None:
            return None
        b, known = 1.0 / self.scale, self.known
        if known is None:
            return Compact(b, metric)
        below = np.tril(known.sy, -1)
        table = np.block([[b * metric.products(known), below], [below.T, -np.diag(np.diag(known.sy))]])
        try:
            return Compact(b, metric, known, np.linalg.inv(table))
        except np.linalg.LinAlgError:  # pairs that differ by rounding alone
            return Compact(b, metric)


@dataclass(frozen=True, eq=False)
class Compact:
    """B = b metric^-1 - W middle W',   W = (b metric^-1 S, Y)   (Byrd, Nocedal and Schnabel 1994); no pairs: H0^-1."""

    b: float
    metric: Metric
    known: Secants = field(default_factory=lambda: NONE)
    middle: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def forms(self, vectors: Sequence[Vector]) -> Floats:
        """v'Bv of all vectors."""
        lengths, along, across = self.metric.meet(vectors, self.known)
        if not self.known.s:
            return self.b * lengths
        w = np.hstack([self.b * along, across])
        return np.asarray(self.b * lengths - ((w @ self.middle) * w).sum(axis=1))

    def times(self, v: Floats) -> Floats:
        """B v."""
        _, along, across = self.metric.meet([v], self.known)
        shares = self.middle @ np.hstack([self.b * along, across])[0]
        out, pairs = v.astype(np.float64), len(self.known.s)
        add_multiples(out, self.known.s, -shares[:pairs])
        out = self.b * self.metric.times(out)
        add_multiples(out, self.known.y, -shares[pairs:])
        return out

    def wide(self, some: Integers) -> Floats:
        """W on some features."""
        columns = [*(self.b * self.metric.times(s)[some] for s in self.known.s), *(y[some] for y in self.known.y)]
        return np.column_stack(columns).astype(np.float64, copy=False) if columns else np.empty((len(some), 0))

    def on(self, some: Integers, d: int) -> Part:
        """Where the metric is the identity."""
        w = self.wide(some)
        return Part(self.b, w, -(w @ self.middle))


@dataclass(frozen=True, eq=False)
class Secants:
    """Pairs, the oldest first. A vector is never copied: a long model has many millions of numbers in its pairs."""

    s: tuple[Floats, ...] = ()
    y: tuple[Floats, ...] = ()
    sy: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """(pairs, pairs): all s_a' y_b."""
    ss: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """(pairs, pairs): all s_a' s_b."""
    yy: Floats = field(default_factory=lambda: np.empty((0, 0)))
    """(pairs, pairs): all y_a' y_b."""

    def joined(self, s: Floats, y: Floats, memory: int) -> Secants:
        """With one more, and the oldest left out where there are more than `memory`."""
        one = Secants((*self.s, s)[-memory:], (*self.y, y)[-memory:])
        (ss, sy), (across, yy) = products(one.s, [s, y]), products(one.y, [s, y])
        tables = _bordered(self.sy, across, sy), _bordered(self.ss, ss, ss), _bordered(self.yy, yy, yy)
        return Secants(one.s, one.y, *tables)

    def new_length(self) -> float:
        """s'r / r'r of what is new in the newest pair, between s'y / y'y and s's / s'y."""
        sizes = np.sqrt(np.diag(self.yy))
        new, slope = _unlike(self.yy / np.outer(sizes, sizes), self.sy[-1] / sizes)
        sy, ss, size = float(self.sy[-1, -1]), float(self.ss[-1, -1]), float(sizes[-1])
        if not (new > ALIKE**2 and slope > 0):
            return sy / size**2
        return min(max(slope / (new * size), sy / size**2), ss / sy)

    def newest(self, count: int) -> Secants:
        """The last ones alone."""
        first = max(len(self.s) - count, 0)
        tables = (table[first:, first:] for table in (self.sy, self.ss, self.yy))
        return Secants(self.s[first:], self.y[first:], *tables)

    def fitting(self, metric: Metric, most: float) -> Secants | None:
        """Those with y' metric y <= most * s'y (it is s'y where y = metric^-1 s): where y was told in few bits, the small
        eigenvalues of metric^-1 make much of its noise. None where there are none."""
        kept = [k for k, y in enumerate(self.y) if dot(y, metric.solve(y)) <= most * self.sy[k, k]]
        tables = (table[np.ix_(kept, kept)] for table in (self.sy, self.ss, self.yy))
        return Secants(tuple(self.s[k] for k in kept), tuple(self.y[k] for k in kept), *tables) if kept else None

    def back(self, q: Floats) -> Floats:
        """a = R^-1 S'q, q -= Y a, in place: from the newest pair to the oldest."""
        if not self.s:
            return np.empty(0)
        shares = self._solved(products(self.s, [q])[0], transposed=False)
        add_multiples(q, self.y, -shares)
        return shares

    def forth(self, q: Floats, shares: Floats) -> None:
        """q += S R^-T (D a - Y'q), in place: from the oldest to the newest."""
        if not self.s:
            return
        rest = np.diag(self.sy) * shares - products(self.y, [q])[0]
        add_multiples(q, self.s, self._solved(rest, transposed=True))

    def _solved(self, right: Floats, *, transposed: bool) -> Floats:
        """R^-1 or R^-T of it: R is the upper triangle of S'Y, and no entry of its diagonal is 0."""
        return np.asarray(dtrtrs(self.sy, right, trans=int(transposed))[0])


PLAIN = Plain()
NONE: Secants = Secants()


def nothing_known(x: Model) -> Pairs:
    """At the first point."""
    return Pairs(Model(x.copy()), single=len(x) > LONG)


def _bordered(table: Floats, row: Floats, column: Floats) -> Floats:
    """The end of the table with one more row and column."""
    kept = len(row) - 1
    out = np.empty((kept + 1, kept + 1))
    out[:-1, :-1] = table[len(table) - kept :, len(table) - kept :]
    out[-1], out[:, -1] = row, column
    return out


@numba.njit(cache=True, nogil=True)
def _unlike(cosines: Floats, slopes: Floats) -> tuple[float, float]:
    """r'r and s'r of what the last of some vectors of length 1 has beside the others, by Gram and Schmidt on their inner
    products, the newest first; those that are nearly alike newer ones are left out. `slopes`: s' times every vector."""
    last, kept = len(cosines) - 1, 0
    met = np.empty((last, last + 2))  # of an orthonormal basis with all vectors, and with s
    for j in range(last - 1, -1, -1):
        row = met[kept]
        row[: last + 1] = cosines[j]
        row[last + 1] = slopes[j]
        for k in range(kept):
            row -= met[k, j] * met[k]
        if row[j] > ALIKE**2:
            row /= np.sqrt(row[j])
            kept += 1
    new, slope = cosines[last, last], slopes[last]
    for k in range(kept):
        new -= met[k, last] ** 2
        slope -= met[k, last] * met[k, last + 1]
    return new, slope
