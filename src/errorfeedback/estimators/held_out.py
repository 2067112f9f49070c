"""Rows that a model is judged by and not trained with: which ones they are, and their losses at a point of the solver.

All of it is data, so that a checkpoint can hold it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from errorfeedback.core import Floats, Integers, Model, PerColumn, PerRow
from errorfeedback.estimators.class_models import ClassModel, TwoClasses
from errorfeedback.estimators.value_models import Identical, ValueModel
from errorfeedback.problems.base import Problem


@dataclass(frozen=True, eq=False)
class HeldOut(ABC):
    """Rows, their targets and weights; `columns` and `scale` say how the solver's entries become those of the model."""

    A: sparse.csr_array = field(repr=False)
    """With a column of ones where the model has an intercept."""
    target: NDArray[Any]
    weights: PerRow
    models: int = 1
    columns: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    scale: Floats = field(default_factory=lambda: np.empty(0))

    def at(self, problem: Problem, units: PerColumn) -> Self:
        """For the points of this problem: an entry of the model is `units` times the solver's."""
        return replace(self, columns=problem.columns, scale=units[problem.columns])

    def __call__(self, z: Model) -> PerRow:
        """The loss of every row, weighted so that their mean is the weighted mean."""
        x = np.zeros(self.models * self.A.shape[1])
        x[self.columns] = self.scale * z
        return self.shares * self.losses(np.asarray(self.A @ x.reshape(-1, self.models)))

    @property
    def shares(self) -> PerRow:
        """The weights with the mean 1."""
        return self.weights / np.mean(self.weights)

    @abstractmethod
    def losses(self, scores: Floats) -> PerRow:
        """The loss of every row, from the (rows, models) scores."""

    def nothing(self) -> float:
        """The mean loss of the model that is 0."""
        return float(np.mean(self.shares * self.losses(np.zeros((len(self.target), self.models)))))

    @abstractmethod
    def constant(self, guess: Floats) -> float:
        """The mean loss of a predictor that says the same of every row."""


@dataclass(frozen=True, eq=False)
class HeldOutClasses(HeldOut):
    """The target is the number of the class. A guess is a probability for every class."""

    kind: ClassModel = field(default_factory=TwoClasses)

    def losses(self, scores: Floats) -> PerRow:
        return self.kind.losses(scores, self.target)

    def constant(self, guess: Floats) -> float:
        return float(np.mean(self.shares * self.kind.constant_losses(guess, self.target)))


@dataclass(frozen=True, eq=False)
class HeldOutValues(HeldOut):
    """The target is a number, and so is a guess."""

    kind: ValueModel = field(default_factory=Identical)

    def losses(self, scores: Floats) -> PerRow:
        return self.kind.loss.values(scores[:, 0], self.target)

    def constant(self, guess: Floats) -> float:
        score = np.full(len(self.target), self.kind.score(float(guess[0])))
        return float(np.mean(self.shares * self.kind.loss.values(score, self.target)))


def held_out(code: NDArray[Any], clients: NDArray[Any], share: float, seed: int) -> NDArray[np.bool_]:
    """Which rows are held out: that share of every class, and within a class of every client, as nearly as possible.

    Rows are put in the order of (class, client), and one of each 1/share neighbours is drawn. A class or a client that
    would lose all its rows keeps them. `code` numbers the classes (0 everywhere where there are none).

    >>> mask = held_out(np.repeat([0, 1], [90, 10]), np.tile([0, 1], 50), 0.2, seed=0)
    >>> np.bincount(np.repeat([0, 1], [90, 10])[mask]).tolist()
    [18, 2]
    """
    if not 0 < share < 1:
        raise ValueError(f"valid = {share:g}; a share of the rows must lie between 0 and 1 (0.2 holds out a fifth)")
    m = len(code)
    _, number = np.unique(clients, return_inverse=True)
    count = int(m * share + 1e-9)
    drawn = np.floor((np.arange(count) + np.random.default_rng(seed).random(count)) / share).astype(np.int64)
    mask = np.zeros(m, dtype=bool)
    mask[np.lexsort((number, code))[np.minimum(drawn, m - 1)]] = True
    for groups in (code, number):
        mask &= (np.bincount(groups, ~mask) > 0)[groups]
    if not mask.any():
        raise ValueError(f"valid = {share:g} of {m} rows holds out none; hold out more, or give a file of held-out rows")
    return mask
