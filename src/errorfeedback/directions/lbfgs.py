"""L-BFGS over estimates (Nocedal 1980; Liu and Nocedal 1989): direction = H g, H from the last pairs

    s = x - x_last,   y = g - g_last,   H0 = (s'y / y'y) I,   H+ = (I - s y'/s'y) H (I - y s'/s'y) + s s'/s'y,

where g estimates the gradient of f and of the server's smooth penalty, which it adds by itself. Pairs are made between
points that a rule has accepted; a step that was refused teaches its curvature too, and the direction from where it began is
taken anew. A pair enters where s'y > 1e-8 ||s|| ||y||, so H stays positive definite whatever the errors of g are: direction
is one of descent for the estimate. Few-bit differences keep g fresh in every coordinate, so that y is clean; TopK's do not.

A round that stands (the same x again: the clients were asked once more) forgets all pairs: they led nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from errorfeedback.core import Floats, Model
from errorfeedback.directions.base import Direction

CURVED = 1e-8
"""The least cosine between s and y."""
SHORTER = 0.25
"""H0 of a standing round, as a share of the one that led nowhere."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """The memory: where the last accepted point was, and what is known of the curvature."""

    x: Model
    g: Model | None = None
    s: Floats | None = None
    """(pairs, d), the oldest first."""
    y: Floats | None = None
    scale: float | None = None
    """H0 = scale I; None: nothing is known yet."""


@dataclass(frozen=True)
class LBFGS(Direction):
    """`memory` pairs.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=40, m=5, c=4)
    >>> run = ef.solve(problem, ef.DGD(), ef.Armijo(), direction=ef.LBFGS(), rounds=60)
    >>> bool(run.history["grad_norm2"][-1] < 1e-9)
    True
    """

    adds_penalty: ClassVar[bool] = True
    memory: int = 20

    def __post_init__(self) -> None:
        if isinstance(self.memory, bool) or not isinstance(self.memory, int) or self.memory < 1:
            raise ValueError(f"memory = {self.memory!r}; it must be a whole number of pairs of at least 1")

    def start(self, x: Model) -> Pairs:
        return Pairs(Model(x.copy()))

    def __call__(self, state: Pairs, x: Model, g: Model) -> tuple[Model, Pairs]:
        if np.array_equal(x, state.x):
            scale = None if state.scale is None else SHORTER * state.scale
            state = Pairs(state.x, Model(g.copy()), scale=scale)
        else:
            state = replace(self._learned(state, x, g), x=Model(x.copy()), g=Model(g.copy()))
        return self._towards(state), state

    def refused(self, state: Pairs, x: Model, g: Model) -> tuple[Model, Pairs]:
        state = self._learned(state, x, g)
        return self._towards(state), state

    def length(self, state: Pairs) -> float | None:
        return None if state.scale is None else 1.0

    def quadratic(self, state: Pairs) -> Callable[[Model], float] | None:
        """v -> v' B v, B = H^-1, in the compact form of Byrd, Nocedal and Schnabel (1994)."""
        if state.scale is None:
            return None
        b = 1.0 / state.scale
        if state.s is None or state.y is None:
            return lambda v: b * float(np.vdot(v, v))
        s, y = state.s, state.y
        sy = s @ y.T
        middle = np.linalg.inv(np.block([[b * (s @ s.T), np.tril(sy, -1)], [np.tril(sy, -1).T, -np.diag(np.diag(sy))]]))

        def form(v: Model) -> float:
            w = np.concatenate([b * (s @ v), y @ v])
            return float(b * np.vdot(v, v) - w @ middle @ w)

        return form

    def _learned(self, state: Pairs, x: Model, g: Model) -> Pairs:
        """With the pair between the last accepted point and this one, where it says something."""
        if state.g is None:
            return state
        s, y = np.subtract(x, state.x, dtype=np.float64), np.subtract(g, state.g, dtype=np.float64)
        sy, ss, yy = float(s @ y), float(s @ s), float(y @ y)
        if not (sy > CURVED * (ss * yy) ** 0.5 and np.isfinite(yy)):
            return state
        return replace(state, s=self._newest(state.s, s), y=self._newest(state.y, y), scale=sy / yy)

    def _newest(self, rows: Floats | None, row: Floats) -> Floats:
        return row[None, :] if rows is None else np.vstack([rows, row])[-self.memory :]

    def _towards(self, state: Pairs) -> Model:
        """H g by the two loops."""
        assert state.g is not None, "a round has been"
        q = state.g.astype(np.float64)
        if state.s is None or state.y is None:
            return Model((q if state.scale is None else state.scale * q).astype(state.g.dtype, copy=False))
        assert state.scale is not None, "pairs have a scale"
        pairs = list(zip(state.s, state.y, 1.0 / np.einsum("kj,kj->k", state.s, state.y), strict=True))
        shares = []
        for s, y, rho in reversed(pairs):
            shares.append(rho * (s @ q))
            q -= shares[-1] * y
        q *= state.scale
        for (s, y, rho), share in zip(pairs, reversed(shares), strict=True):
            q += (share - rho * (y @ q)) * s
        return Model(q.astype(state.g.dtype, copy=False))

    @classmethod
    def examples(cls) -> Sequence[LBFGS]:
        return [cls(), cls(3)]
