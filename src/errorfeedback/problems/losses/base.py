"""A loss of the prediction of one row: of the number z = <a, x>, or of q numbers z = X' a, one per class."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf

import numpy as np

from errorfeedback.core import Lifted, Model, PerRow
from errorfeedback.problems.blocks.base import Blocks


@dataclass(frozen=True)
class Loss(ABC):
    """z -> loss(z, b), convex unless it says otherwise, with a second derivative in z of at most `curvature` in size (its
    largest eigenvalue, where z is q numbers); infinity where nothing bounds it, and then nothing applies that needs a bound.

    With q `outputs` above 1, z is a matrix (rows, q), and so are the derivatives.

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
        if isinstance(self.outputs, bool) or not isinstance(self.outputs, int) or self.outputs < 1:
            raise ValueError(f"outputs = {self.outputs!r}; a model says a whole number of numbers of a row, at least 1")
        if not self.curvature > 0:
            raise ValueError(
                f"curvature = {self.curvature}; a bound on the second derivative must be above 0 (inf: none known)"
            )

    @abstractmethod
    def values(self, z: PerRow, b: PerRow) -> PerRow: ...

    @abstractmethod
    def slopes(self, z: PerRow, b: PerRow, shares: PerRow, out: PerRow) -> None:
        """out = shares * (the derivative in z); out may be z."""

    def bends(self, z: PerRow, b: PerRow) -> PerRow | None:
        """The second derivative in z, where it is known (and z is one number)."""
        return None

    def above(self, z: PerRow, b: PerRow) -> PerRow:
        """The second derivative of a parabola that touches the loss at z and is nowhere below it, the flattest one that is
        known: `curvature` always does (docs/theory.md, section 28)."""
        return np.full_like(z, self.curvature)

    @property
    def typical(self) -> float:
        """A second derivative to bring features to like size by, where it need not bound anything: `curvature`, unless that
        is infinite. A loss without a bound may say what it is at the zero model; infinity: nothing is known."""
        return self.curvature

    @property
    def steepest(self) -> float:
        """A bound on the length of the derivative in z, which bounds the noise of minibatches; infinity: none."""
        return inf

    @property
    def convex(self) -> bool:
        """Whether it is, for every target: some theorems ask. One that is not keeps its second derivative (`bends`) to
        itself, as directions take Hessians for convex ones."""
        return True

    @property
    def attained(self) -> bool:
        """At one model all rows have the second derivative `curvature` (the logistic loss at 0): L and L_i are exact."""
        return True

    def check(self, b: PerRow) -> None:  # noqa: B027 - most losses have a value for every number
        """Raise where no loss is defined for a target."""

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


@dataclass(frozen=True)
class ClassLoss(Loss):
    """A loss for `outputs` classes: the target is the number of the class."""

    outputs: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.outputs < 2:
            raise ValueError(f"outputs = {self.outputs}; there must be at least 2 classes")

    def check(self, b: PerRow) -> None:
        wrong = np.flatnonzero((b < 0) | (b >= self.outputs) | (b != np.floor(b)))
        if len(wrong):
            rule = f"classes are numbered from 0 to {self.outputs - 1}"
            raise ValueError(f"b[{wrong[0]}] = {b[wrong[0]]:g}; {rule} (ef.softmax takes any labels)")
