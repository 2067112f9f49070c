"""Momentum on the server (Polyak 1964); with EF21 this is EF21-HB (Fatkhullin et al. 2021, Algorithm 6):

    v = eta v + g,    x+ = x - gamma v,

from v = 0. The step size of its theorem is `ef.RareHeavyBall(eta)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.core import Model
from errorfeedback.directions.base import Direction


@dataclass(frozen=True)
class HeavyBall(Direction):
    """`eta` in [0, 1): how much of the last direction is kept.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=40, m=5, c=4)
    >>> rule, ball = ef.RareHeavyBall(0.5), ef.HeavyBall(0.5)
    >>> run = ef.solve(problem, ef.EF21(ef.TopK(2)), rule, direction=ball, rounds=300, every=300)
    >>> bool(run.history["f"][-1] < run.history["f"][0])
    True
    """

    adds_penalty: ClassVar[bool] = True
    eta: float = 0.9

    def __post_init__(self) -> None:
        if not 0 <= self.eta < 1:
            raise ValueError(f"eta = {self.eta}; the share of the last direction that is kept must be in [0, 1)")

    def start(self, x: Model) -> Model:
        return Model(np.zeros_like(x))

    def __call__(self, v: Model, x: Model, g: Model) -> tuple[Model, Model]:
        v = Model(self.eta * v + g)
        return v, v

    @classmethod
    def examples(cls) -> Sequence[HeavyBall]:
        return [cls(0.5)]
