"""A step size for every coordinate, from the estimates so far: AdaGrad on the server (Duchi, Hazan, Singer 2011; FedAdagrad
of Reddi et al. 2021),

    v = v + g^2,    direction = g / (sqrt(v) + epsilon).

Rare features, whose gradients are seldom large, get longer steps. No theorem here speaks about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import numpy as np

from errorfeedback.core import Model
from errorfeedback.directions.base import Direction


@dataclass(frozen=True)
class Diagonal(Direction):
    """`epsilon` bounds the steps of coordinates that have hardly moved.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=40, m=5, c=4)
    >>> run = ef.solve(problem, ef.EF21(ef.TopK(2)), ef.Constant(0.5), direction=ef.Diagonal(), rounds=300, every=300)
    >>> bool(run.history["f"][-1] < 0.1 * run.history["f"][0])
    True
    """

    adds_penalty: ClassVar[bool] = True
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        if not (isfinite(self.epsilon) and self.epsilon > 0):
            raise ValueError(f"epsilon = {self.epsilon}; it must be finite and above 0")

    def start(self, x: Model) -> Model:
        return Model(np.zeros_like(x))

    def __call__(self, v: Model, x: Model, g: Model) -> tuple[Model, Model]:
        v += g**2
        return Model(g / (np.sqrt(v) + self.epsilon)), v

    @classmethod
    def examples(cls) -> Sequence[Diagonal]:
        return [cls()]
