"""What quasi-Newton directions share: pairs of steps and changes of the gradient, and BFGS matrices made of them.

    s = x - x_last,   y = g - g_last,   H+ = (I - s y'/s'y) H (I - y s'/s'y) + s s'/s'y,   H0 = scale * metric,

with scale = s'y / (y' metric y) of the newest pair. A pair enters where s'y > 1e-8 ||s|| ||y||, so H stays positive definite
whatever the errors of g are: H g is a direction of descent for the estimate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from errorfeedback.core import Floats, Model

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
    s: Floats | None = None
    """(pairs, d), the oldest first."""
    y: Floats | None = None
    scale: float | None = None
    """None: nothing is known yet."""

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
        sy, ss, yy = float(s @ y), float(s @ s), float(y @ y)
        if not (sy > CURVED * (ss * yy) ** 0.5 and np.isfinite(yy)):
            return self
        newest = [
            row[None, :] if rows is None else np.vstack([rows, row])[-memory:] for rows, row in ((self.s, s), (self.y, y))
        ]
        return replace(self, s=newest[0], y=newest[1], scale=sy / float(y @ metric.solve(y)))

    def towards(self, metric: Metric) -> Model:
        """H g by the two loops (Nocedal 1980)."""
        assert self.g is not None, "a round has been"
        q = self.g.astype(np.float64)
        pairs = []
        if self.s is not None and self.y is not None:
            pairs = list(zip(self.s, self.y, 1.0 / np.einsum("kj,kj->k", self.s, self.y), strict=True))
        shares = []
        for s, y, rho in reversed(pairs):
            shares.append(rho * (s @ q))
            q -= shares[-1] * y
        if self.scale is not None:
            q = self.scale * metric.solve(q)
        for (s, y, rho), share in zip(pairs, reversed(shares), strict=True):
            q += (share - rho * (y @ q)) * s
        return Model(q.astype(self.g.dtype, copy=False))

    def quadratic(self, metric: Metric) -> Callable[[Model], float] | None:
        """v -> v' B v, B = H^-1, in the compact form of Byrd, Nocedal and Schnabel (1994)."""
        if self.scale is None:
            return None
        b = 1.0 / self.scale
        if self.s is None or self.y is None:
            return lambda v: b * float(v @ metric.times(v))
        s, y = self.s, self.y
        bs, sy = b * np.array([metric.times(row) for row in s]), s @ y.T
        middle = np.linalg.inv(np.block([[s @ bs.T, np.tril(sy, -1)], [np.tril(sy, -1).T, -np.diag(np.diag(sy))]]))

        def form(v: Model) -> float:
            w = np.concatenate([bs @ v, y @ v])
            return float(b * (v @ metric.times(v)) - w @ middle @ w)

        return form


PLAIN = Plain()
