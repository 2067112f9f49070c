"""A scalar loss of the prediction z = <a, x> of one row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf

import numpy as np

from errorfeedback.core import Lifted, Model, PerRow
from errorfeedback.problems.blocks.base import Blocks


@dataclass(frozen=True)
class Loss(ABC):
    """z -> loss(z, b), convex, with a second derivative in z of at most `curvature`; infinity where nothing bounds it, and
    then nothing applies that needs a bound.

    >>> class Exponential(Loss):
    ...     def values(self, z, b):
    ...         return np.exp(-b * z)
    ...
    ...     def slopes(self, z, b, shares, out):
    ...         np.multiply(-b * np.exp(-b * z), shares, out=out)
    >>> Exponential().curvature
    inf
    """

    curvature: float = inf
    quadratic: bool = False
    """The second derivative is the same everywhere."""
    outputs: int = 1
    """Numbers that a model says of a row."""

    def __post_init__(self) -> None:
        if not self.curvature > 0:
            raise ValueError(
                f"curvature = {self.curvature}; a bound on the second derivative must be above 0 (inf: none known)"
            )

    @abstractmethod
    def values(self, z: PerRow, b: PerRow) -> PerRow: ...

    @abstractmethod
    def slopes(self, z: PerRow, b: PerRow, shares: PerRow, out: PerRow) -> None:
        """out = shares * (the derivative in z); out may be z."""

    def floor(self, b: PerRow) -> PerRow:
        """A value that the loss of each row never goes below."""
        return np.zeros(len(b))

    def gradients(
        self, blocks: Blocks, x: Model, b: PerRow, shares: PerRow, out: Lifted, losses: PerRow | None = None
    ) -> None:
        """out = A_i' (shares * derivative) for every client, z = A x; `losses` gets those of the rows."""
        blocks.forward(x, blocks.predictions, out)
        self.back(blocks, b, shares, out, losses)

    def back(self, blocks: Blocks, b: PerRow, shares: PerRow, out: Lifted, losses: PerRow | None = None) -> None:
        """The same where the blocks' predictions are z already."""
        z = blocks.predictions
        if losses is not None:
            losses[:] = self.values(z, b)
        self.slopes(z, b, shares, z)
        blocks.backward(z, out)
