"""Rows that a model is judged by and not trained with: which ones they are, and their losses at a point of the solver.

All of it is data, so that a checkpoint can hold it. Losses are added up client by client, so that the sums of rows that lie
in several places are those of rows that lie in one, bit for bit.
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
from errorfeedback.problems.conversation import Conversation, Seat


class HeldOut(ABC):
    """Rows that a model is judged by, wherever they are. They come in units: the rows of a client, or every row by itself.

    What is known of a unit u is W_u, the sum of its rows' weights, and at a point the sum of their weighted losses.
    """

    @property
    @abstractmethod
    def weight_sums(self) -> Floats:
        """(units,): W_u."""

    @abstractmethod
    def sums(self, z: Model) -> Floats:
        """(units,): the weighted losses of every unit at a point of the solver, added up."""

    @abstractmethod
    def constant_sums(self, guess: Floats) -> Floats:
        """The same of a predictor that says the same of every row."""

    @abstractmethod
    def zero_sums(self) -> Floats:
        """The same of the model that is 0."""

    @abstractmethod
    def at(self, problem: Problem, units: PerColumn) -> Self:
        """For the points of this problem: an entry of the model is `units` times the solver's."""

    def __call__(self, z: Model) -> Floats:
        """(units,): their mean is the weighted mean of all rows' losses."""
        return self._shared(self.sums(z))

    def constant(self, guess: Floats) -> float:
        """The weighted mean loss of the better of two that see no feature: a constant guess, and the model that is 0."""
        return float(min(np.mean(self._shared(each)) for each in (self.constant_sums(guess), self.zero_sums())))

    def _shared(self, sums: Floats) -> Floats:
        return sums * (len(sums) / np.sum(self.weight_sums))


@dataclass(frozen=True, eq=False)
class HeldOutRows(HeldOut):
    """Rows that are here; `columns` and `scale` say how the solver's entries become those of the model."""

    A: sparse.csr_array = field(repr=False)
    """With a column of ones where the model has an intercept."""
    target: NDArray[Any]
    weights: PerRow
    models: int = 1
    firsts: Integers | None = None
    """(units,): where the rows of each client begin; None: every row is a unit."""
    columns: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    scale: Floats = field(default_factory=lambda: np.empty(0))

    def at(self, problem: Problem, units: PerColumn) -> Self:
        return replace(self, columns=problem.columns, scale=units[problem.columns])

    @property
    def features(self) -> Integers:
        """Which entries of the solver's points these rows depend on."""
        used = np.zeros(self.A.shape[1], dtype=bool)
        used[self.A.indices] = True
        return np.flatnonzero(used[self.columns // self.models])

    @property
    def weight_sums(self) -> Floats:
        return self._added(self.weights)

    def sums(self, z: Model) -> Floats:
        x = np.zeros(self.models * self.A.shape[1])
        x[self.columns] = self.scale * z
        return self._added(self.weights * self.losses(np.asarray(self.A @ x.reshape(-1, self.models))))

    def zero_sums(self) -> Floats:
        return self._added(self.weights * self.losses(np.zeros((len(self.target), self.models))))

    def constant_sums(self, guess: Floats) -> Floats:
        return self._added(self.weights * self.constant_losses(guess))

    def _added(self, rows: PerRow) -> Floats:
        return rows if self.firsts is None else np.add.reduceat(rows, self.firsts)

    @abstractmethod
    def losses(self, scores: Floats) -> PerRow:
        """The loss of every row, from the (rows, models) scores."""

    @abstractmethod
    def constant_losses(self, guess: Floats) -> PerRow:
        """The loss of every row where all are predicted the same."""


@dataclass(frozen=True, eq=False)
class HeldOutClasses(HeldOutRows):
    """The target is the number of the class. A guess is a probability for every class."""

    kind: ClassModel = field(default_factory=TwoClasses)

    def losses(self, scores: Floats) -> PerRow:
        return self.kind.losses(scores, self.target)

    def constant_losses(self, guess: Floats) -> PerRow:
        return self.kind.constant_losses(guess, self.target)


@dataclass(frozen=True, eq=False)
class HeldOutValues(HeldOutRows):
    """The target is a number, and so is a guess."""

    kind: ValueModel = field(default_factory=Identical)

    def losses(self, scores: Floats) -> PerRow:
        return self.kind.loss.values(scores[:, 0], self.target)

    def constant_losses(self, guess: Floats) -> PerRow:
        return self.kind.loss.values(np.full(len(self.target), self.kind.score(float(guess[0]))), self.target)


def held_out(
    labels: NDArray[Any], clients: NDArray[Any], share: float, seed: int, seat: Seat
) -> Conversation[NDArray[np.bool_]]:
    """Which rows of this place are held out: that share of every class, and within a class of every client, as nearly as
    possible.

    The rows of all places are put in the order of (class, client), and one of each 1/share neighbours is drawn. A class or a
    client that would lose all its rows keeps them. `labels` says the class of every row (the same for all where there are
    none). The clients of a place come before those of the next, so that nobody has to know more of the others than how many
    rows of every class they have, and where the rows lie changes nothing.

    >>> from errorfeedback.problems.conversation import alone
    >>> labels, clients = np.repeat([0, 1], [90, 10]), np.tile([0, 1], 50)
    >>> mask = alone(lambda seat: held_out(labels, clients, 0.2, 0, seat))
    >>> np.bincount(labels[mask]).tolist()
    [18, 2]
    """
    if not 0 < share < 1:
        raise ValueError(f"valid = {share:g}; a share of the rows must lie between 0 and 1 (0.2 holds out a fifth)")
    classes, code = np.unique(labels, return_inverse=True)
    everyone = yield classes, np.bincount(code)
    known = np.unique(np.concatenate([each for each, _ in everyone]))
    rows = np.zeros((len(known), seat.of), dtype=np.int64)
    for place, (each, count) in enumerate(everyone):
        rows[np.searchsorted(known, each), place] = count
    chosen = _drawn(rows.sum(axis=1), share, seed)
    ends = np.cumsum(rows.ravel()).reshape(rows.shape)[:, seat.number]
    mine = [chosen[end - count : end] for end, count in zip(ends, rows[:, seat.number], strict=True)]
    _, number = np.unique(clients, return_inverse=True)
    mask = np.zeros(len(labels), dtype=bool)
    mask[np.lexsort((number, code))] = np.concatenate(mine)
    return mask & (np.bincount(number, ~mask) > 0)[number]


def _drawn(rows: Integers, share: float, seed: int) -> NDArray[np.bool_]:
    """The draw among so many rows of every class, one class after the other."""
    m = int(rows.sum())
    count = int(m * share + 1e-9)
    drawn = np.floor((np.arange(count) + np.random.default_rng(seed).random(count)) / share).astype(np.int64)
    mask, code = np.zeros(m, dtype=bool), np.repeat(np.arange(len(rows)), rows)
    mask[np.minimum(drawn, m - 1)] = True
    return mask & (np.bincount(code, ~mask) > 0)[code]


def check_some(held: int, share: float, rows: int) -> None:
    """Raise where nothing is held out."""
    if not held:
        raise ValueError(f"valid = {share:g} of {rows} rows holds out none; hold out more, or give a file of held-out rows")


def by_client(clients: NDArray[Any]) -> tuple[Integers, Integers]:
    """Rows in the order of their clients, and where those of each begin in it.

    >>> by_client(np.array(["b", "a", "b"]))
    (array([1, 0, 2]), array([0, 1]))
    """
    order = np.argsort(clients, kind="stable")
    return order, np.unique(clients[order], return_index=True)[1]
