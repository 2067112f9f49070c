"""Held-out rows that stay on their nodes: what the server hears of them is one number a client.

    server   z on the features that a node's held-out rows have, once a round
    node     sum_rows w loss of each of its clients

Both are 8 bytes a number, with all digits: the server decides by what one process would see.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from errorfeedback.core import Floats, Integers, Model, PerColumn
from errorfeedback.estimators.held_out import HeldOut, HeldOutRows
from errorfeedback.problems.base import Problem

NUMBERS = np.dtype("<f8")
Ask = Callable[[list[Floats]], list[Floats]]
"""Entries of z for every node -> the sums of its clients."""


@dataclass(frozen=True, eq=False)
class HeldAtNode:
    """What a node lets the server know of its held-out rows, before round 0."""

    rows: int
    features: Integers
    """Which entries of z the rows depend on."""
    weights: Floats
    """Of each client that has some, the sum of their weights,"""
    constant: Floats
    """of their weighted losses where all are predicted the same,"""
    zero: Floats
    """and at the model that is 0."""

    @classmethod
    def of(cls, held: HeldOutRows, guess: Floats) -> HeldAtNode:
        return cls(held.A.shape[0], held.features, held.weight_sums, held.constant_sums(guess), held.zero_sums())

    @property
    def sound(self) -> bool:
        """Whether a node can have said this of its rows."""
        sums = (self.weights, self.constant, self.zero)
        arrays = all(isinstance(each, np.ndarray) and each.ndim == 1 for each in (*sums, self.features))
        if not arrays or type(self.rows) is not int or self.features.dtype.kind != "i":
            return False
        alike = all(each.dtype == np.float64 and len(each) == len(self.weights) for each in sums)
        return alike and bool(np.isfinite(self.weights).all() and (self.weights >= 0).all())


NO_ROWS = HeldAtNode(0, np.empty(0, dtype=np.int64), *np.empty((3, 0)))
"""Of a node whose rows all were kept for training."""


@dataclass(frozen=True, eq=False)
class HeldOutElsewhere(HeldOut):
    """All nodes' held-out rows, as the server knows them."""

    nodes: tuple[HeldAtNode, ...]
    _ask: Ask | None = field(default=None, init=False, repr=False)

    def asking(self, ask: Ask) -> Self:
        """With a way to the nodes, which no file can hold."""
        object.__setattr__(self, "_ask", ask)
        return self

    @property
    def rows(self) -> int:
        return sum(node.rows for node in self.nodes)

    @property
    def weight_sums(self) -> Floats:
        return np.concatenate([node.weights for node in self.nodes])

    def sums(self, z: Model) -> Floats:
        assert self._ask is not None, "it is given before a run"
        return np.concatenate(self._ask([z[node.features] for node in self.nodes]))

    def constant_sums(self, guess: Floats) -> Floats:
        return np.concatenate([node.constant for node in self.nodes])

    def zero_sums(self) -> Floats:
        return np.concatenate([node.zero for node in self.nodes])

    def at(self, problem: Problem, units: PerColumn) -> Self:
        for node in self.nodes:
            if len(node.features) and not 0 <= node.features.min() <= node.features.max() < problem.d:
                raise ValueError(f"a node's held-out rows have features beyond the {problem.d} of the problem")
        return self
