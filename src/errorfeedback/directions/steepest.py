"""x+ = x - gamma g: the direction of every theorem here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from errorfeedback.core import Model
from errorfeedback.directions.base import Direction


@dataclass(frozen=True)
class Steepest(Direction):
    """The estimate as it is.

    >>> import numpy as np
    >>> Steepest()(None, np.zeros(2), np.array([1.0, -2.0]))[0]
    array([ 1., -2.])
    """

    is_estimate: ClassVar[bool] = True

    def __call__(self, state: None, x: Model, g: Model) -> tuple[Model, None]:
        return g, None

    @classmethod
    def examples(cls) -> Sequence[Steepest]:
        return [cls()]
