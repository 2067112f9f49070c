"""A scalar loss of the prediction z = <a, x> of one row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from errorfeedback.core import Lifted, Model, PerRow
from errorfeedback.problems.blocks.base import Blocks


@dataclass(frozen=True)
class Loss(ABC):
    """z -> loss(z, b), non-negative and convex, with second derivative at most `curvature` (attained at z = 0)."""

    curvature: float
    quadratic: bool

    @abstractmethod
    def values(self, z: PerRow, b: PerRow) -> PerRow: ...

    @abstractmethod
    def slopes(self, z: PerRow, b: PerRow, weights: PerRow, out: PerRow) -> None:
        """out = weights * (the derivative in z) / curvature; out may be z."""

    def gradients(
        self, blocks: Blocks, x: Model, b: PerRow, weights: PerRow, out: Lifted, losses: PerRow | None = None
    ) -> None:
        """out = A_i' (weights * derivative / curvature) for every client, z = A x; `losses` gets those of the rows."""
        blocks.forward(x, blocks.predictions, out)
        self.back(blocks, b, weights, out, losses)

    def back(self, blocks: Blocks, b: PerRow, weights: PerRow, out: Lifted, losses: PerRow | None = None) -> None:
        """The same where the blocks' predictions are z already."""
        z = blocks.predictions
        if losses is not None:
            losses[:] = self.values(z, b)
        self.slopes(z, b, weights, z)
        blocks.backward(z, out)
