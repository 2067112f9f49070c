"""A model of a framework, trained across clients: f_i = the mean loss over the client's rows of data.

The framework gives values and gradients of several clients in one call (`Framework`); everything else is numpy: who owns
which number of the model, batches, samples of rows.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from errorfeedback.core import Floats, Integers, Lifted, Model, PerClient, PerColumn, Point, Sample, precision
from errorfeedback.interop.batches import Batch, BatchPlace, Slice, batches, places, weights_of
from errorfeedback.interop.layout import ClientData, Parameter, described, flat_size, owned_numbers
from errorfeedback.keyed import sampled_rows
from errorfeedback.problems.estimated import Estimated, known_norms
from errorfeedback.problems.gradient_check import check_gradients, check_start
from errorfeedback.problems.own import OwnProblem, owned_support

NEAR = 0.1
"""How far from the start, in every number, the model itself is compared with what clients compute."""

SUMMED = (
    "the loss doubles where every row of data is given twice: it is the sum over the rows; give their mean, or one number "
    'per row (reduction="mean" or "none")'
)


class Framework(ABC):
    """What computes the model."""

    by_row: bool
    """The loss has one number per row of data, and not one for all."""

    @abstractmethod
    def another(self) -> Framework:
        """The same for another shard, which may be on another thread."""

    @abstractmethod
    def losses(self, u: Floats, slices: Sequence[Slice], arrays: Sequence[NDArray[Any]], weights: Floats) -> Floats:
        """f_i of clients with the padded vectors u."""

    @abstractmethod
    def gradients(
        self, u: Floats, slices: Sequence[Slice], arrays: Sequence[NDArray[Any]], weights: Floats
    ) -> tuple[Floats, Floats]:
        """f_i, and the gradients in u."""

    @abstractmethod
    def of_whole(self, x: PerColumn, client: int) -> tuple[float, Floats]:
        """f_i and its gradient from the model as the user wrote it, with whole tables: what the others must agree with."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ModelProblem(OwnProblem):
    """Made by `ef.torch.problem` and `ef.jax.problem`."""

    parameters: tuple[Parameter, ...]
    clients: Sequence[ClientData]
    places: Sequence[BatchPlace]
    per_call: int
    """Clients whose gradients are computed in one call."""
    framework: Framework
    digest: str
    """Of all clients' data."""
    remarks: tuple[str, ...] = ()
    """What the user should know of how the model is read."""

    @cached_property
    def batches(self) -> list[Batch]:
        return list(batches(self.parameters, self.clients, self.places, self.support.indptr, self.per_call))

    @cached_property
    def rows(self) -> Integers:
        """(n + 1,): where the rows of data of every client begin."""
        return np.concatenate([[0], np.cumsum([client.m for client in self.clients])])

    @property
    def common(self) -> list[int]:
        """The active features that are no rows of a table: every client has them (for `ef.ExactOnCommon`)."""
        ends = np.cumsum([p.size for p in self.parameters])
        tables = np.array([p.table for p in self.parameters])
        return np.flatnonzero(~tables[np.searchsorted(ends, self.columns, side="right")]).tolist()

    def values(self, at: Point) -> PerClient:
        out, own = PerClient(np.empty(self.n)), self._own(at)
        for batch in self.batches:
            losses = self.framework.losses(own[batch.positions], batch.slices, batch.arrays, batch.weights)
            out[batch.members[batch.present]] = losses[batch.present]
        return out

    @property
    def samples(self) -> bool:
        return True

    def gradients(self, at: Point, out: Lifted, *, rows: Sample | None = None, values: PerClient | None = None) -> None:
        own = self._own(at)
        chosen = None if rows is None else sampled_rows(rows, self.rows, self.support.first)
        for batch in self.batches:
            arrays, weights = batch.arrays, batch.weights
            if rows is not None and chosen is not None:
                arrays, weights = self._sampled(batch, rows.size, *chosen)
            losses, grads = self.framework.gradients(own[batch.positions], batch.slices, arrays, weights)
            out[batch.positions[batch.owned]] = grads[batch.owned]
            if values is not None:
                values[batch.members[batch.present]] = losses[batch.present]

    def _own(self, at: Point) -> Floats:
        """The lifted point, and a zero for the padding."""
        return np.append(at.on(self.support.gather), np.zeros(1, dtype=self.dtype))

    def _sampled(self, batch: Batch, size: int, chosen: Integers, ends: Integers) -> tuple[tuple[NDArray[Any], ...], Floats]:
        """The rows of a sample, padded by repetition to the same number for every client, in any shard."""
        counts, length = np.diff(ends)[batch.members], min(size, batch.arrays[0].shape[1])
        pick = np.minimum(np.arange(length), counts[:, None] - 1)
        within = chosen[ends[batch.members][:, None] + pick] - self.rows[batch.members][:, None]
        slots = np.arange(len(within))[:, None]
        return tuple(array[slots, within] for array in batch.arrays), weights_of(counts, length, batch.shares)

    @property
    def work(self) -> int:
        return self.n  # one shard in one process: a cut through a batch computes it twice

    def shard(self, lo: int, hi: int) -> ModelProblem:
        return replace(
            self,
            support=self.support.shard(lo, hi),
            clients=self.clients[lo:hi],
            places=self.places[lo:hi],
            framework=self.framework.another(),
            known=None if self.known is None else self.known.shard(lo, hi),
        )

    def __str__(self) -> str:
        tables = ", ".join(p.name for p in self.parameters if p.table) or "no tables"
        rows = f"{int(self.rows[-1])} rows of data, rare rows of {tables}, {len(self.common)} common numbers"
        how = f"{self.per_call} clients in a call" if self.per_call > 1 else "client by client"
        return "; ".join([f"a model of your own: {super().__str__()}, {rows}", how, *self.remarks])


def model_problem(
    parameters: Sequence[Parameter],
    clients: Sequence[ClientData],
    framework: Framework,
    first_point: PerColumn,
    *,
    dtype: np.dtype[Any],
    per_call: int,
    lower_bound: float,
    smoothness: ArrayLike | Estimated | None,
    check: bool,
    seed: int,
    remarks: Sequence[str],
) -> ModelProblem:
    """The problem, checked."""
    if isinstance(per_call, bool) or not isinstance(per_call, (int, np.integer)) or per_call < 1:
        raise ValueError(f"clients_per_call = {per_call!r}; it must be a whole number of at least 1")
    per_call = min(int(per_call), len(clients))
    support, columns = owned_support([owned_numbers(parameters, client.rows) for client in clients], flat_size(parameters))
    made = ModelProblem(
        support=support,
        columns=columns,
        width=flat_size(parameters),
        dtype=precision(dtype),
        first_point=np.asarray(first_point, dtype=np.float64),
        floor=float(lower_bound),
        parameters=tuple(parameters),
        clients=clients,
        places=places(clients, per_call, framework.by_row),
        per_call=per_call,
        framework=framework,
        digest=_digest(clients),
        remarks=tuple(remarks),
    )
    check_start(made)
    if check:
        check_gradients(made, seed=seed)
        _check_whole(made, seed)
    return replace(made, known=known_norms(made, smoothness, seed=seed))


def _check_whole(problem: ModelProblem, seed: int) -> None:
    """Raise where a client's f_i, from its own rows of the tables, is not that of the model, or has slopes elsewhere."""
    draw = np.random.default_rng([seed, 4])
    near = problem.restrict(problem.x0) + NEAR * draw.standard_normal(problem.d)
    x = problem.extend(Model(near), problem.x0)
    values, grads = PerClient(np.empty(problem.n)), Lifted(np.empty(problem.support.size, dtype=problem.dtype))
    problem.gradients(Point(problem.restrict(x)), grads, values=values)
    ends, tolerance = problem.support.indptr, float(np.finfo(problem.dtype).eps) ** 0.5 * 10
    for i in range(problem.n):
        value, whole = problem.framework.of_whole(x, i)
        value, whole = problem.clients[i].weight * value, problem.clients[i].weight * whole
        ours = np.zeros(problem.width)
        ours[problem.columns[problem.support.features(i)]] = grads[ends[i] : ends[i + 1]]
        gap = np.abs(ours - whole)
        j = int(np.argmax(gap))
        if gap[j] > tolerance * max(np.abs(whole).max(), 1e-3) or not abs(value - values[i]) <= tolerance * max(
            1.0, abs(value)
        ):
            raise ValueError(
                f"client {i}: from its own rows of the tables f_i is {values[i]:.6g}, its slope in "
                f"{described(problem.parameters, j)} {ours[j]:.6g}, from the whole model {value:.6g} and {whole[j]:.6g}; "
                "name a table in common= that is used otherwise than by looking up rows (in JAX: leave it out of tables=), "
                "and give a loss of one number (the mean) to a model that mixes rows of data"
            )


def doubled(value: float, twice: float) -> bool:
    """Whether the loss of the same rows, each given twice, is twice the loss.

    >>> doubled(3.0, 6.0), doubled(3.0, 3.0), doubled(0.0, 0.0)
    (True, False, False)
    """
    return value != 0 and abs(twice - 2 * value) <= 1e-3 * abs(value)


def checked_weights(weights: Sequence[float] | None, n: int) -> list[float]:
    """What every client's f_i is multiplied with."""
    given = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if given.shape != (n,):
        raise ValueError(f"client_weights has shape {given.shape}; give one number for each of the {n} clients")
    if not (np.isfinite(given) & (given > 0)).all():
        i = int(np.argmin(np.isfinite(given) & (given > 0)))
        raise ValueError(f"client_weights[{i}] = {given[i]}; a weight must be finite and above 0")
    return given.tolist()


def _digest(clients: Sequence[ClientData]) -> str:
    digest = hashlib.sha256()
    for client in clients:
        for array in (*client.arrays, *client.rows, np.array(client.weight)):
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def load(x: Model | PerColumn, parameters: Sequence[Parameter]) -> list[Floats]:
    """The parameters from a flat model, each in its shape."""
    flat = np.asarray(x)
    if flat.shape != (flat_size(parameters),):
        raise ValueError(f"x has shape {flat.shape}, but the model has {flat_size(parameters)} numbers in its parameters")
    ends = np.cumsum([p.size for p in parameters])[:-1]
    return [part.reshape(p.shape) for part, p in zip(np.split(flat, ends), parameters, strict=True)]
