"""`ef.torch.problem`: f_i(x) = the mean of loss(module(inputs), target) over the client's rows.

x is the module's trainable parameters in the order of `named_parameters()`, each flattened row by row. Of an embedding table
a client has the rows that occur in its data; every other parameter is common to all.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from errorfeedback.core import Integers, Model, PerColumn
from errorfeedback.interop.batches import PER_CALL, batches, places
from errorfeedback.interop.layout import ClientData, Parameter, owned_numbers
from errorfeedback.interop.models import ModelProblem, checked_weights, load, model_problem
from errorfeedback.interop.torch.client_data import Example, read
from errorfeedback.interop.torch.embedding_tables import Calls, padding_of, recorded_calls, tables_of
from errorfeedback.interop.torch.module_checks import checked_module, checked_runs
from errorfeedback.interop.torch.modules import Modules, TorchLoss
from errorfeedback.problems.estimated import Estimated


def problem(
    module: nn.Module,
    loss: TorchLoss,
    client_datasets: Sequence[Any],
    *,
    supports: Mapping[str, Sequence[ArrayLike]] | None = None,
    common: Sequence[str] = (),
    client_weights: Sequence[float] | None = None,
    clients_per_call: int = PER_CALL,
    lower_bound: float = -inf,
    smoothness: ArrayLike | Estimated | None = None,
    check: bool = True,
    seed: int = 0,
) -> ModelProblem:
    """The problem of training the `module` over these clients; x0 is its parameters as they are.

    `loss(output, target)`: one number per row (reduction="none": clients with unequal numbers of rows are then computed in
    one call), or their mean. `client_datasets`: for each client (inputs, target) or a Dataset; inputs may be several tensors
    in a tuple or dict. `supports`: for a table, by its parameter's name, the rows of every client, where it has more than
    occur. `common`: tables that are used otherwise than by looking up rows, so that all clients have all rows.
    `client_weights`: what every f_i counts (n m_i / m for rows that count alike); 1 by default. `clients_per_call=1`: one by
    one. `check`: gradients are compared with differences of values and with the whole module, at points of `seed`.
    `lower_bound` and `smoothness` as in `ef.problem`.
    """
    kept = deepcopy(module)
    dtype, names = checked_module(kept)
    examples = [read(i, data) for i, data in enumerate(client_datasets)]
    if not examples:
        raise ValueError("there are no clients; give a list with the data of each")
    remarks = checked_runs(kept, loss, examples[0])
    calls, tables = recorded_calls(kept, examples, tables_of(kept, common))
    parameters = [Parameter(name, tuple(kept.get_parameter(name).shape), name in tables) for name in names]
    _check_supports(parameters, supports or {}, len(examples))
    weights = checked_weights(client_weights, len(examples))
    nobodys = padding_of(kept, tables)
    clients = [
        _client(i, example, calls[i], parameters, supports or {}, nobodys, weights[i]) for i, example in enumerate(examples)
    ]
    framework = Modules(kept, loss, tables, [table for table in tables for _ in calls[0][table]], examples)
    if clients_per_call > 1 and (reason := _not_batched(framework, parameters, clients[0])):
        clients_per_call, remarks = 1, [*remarks, f"vmap refused the module ({reason})"]
    first = np.concatenate([kept.get_parameter(name).detach().cpu().numpy().ravel() for name in names])
    return model_problem(
        parameters,
        clients,
        framework,
        first,
        dtype=dtype,
        per_call=clients_per_call,
        lower_bound=lower_bound,
        smoothness=smoothness,
        check=check,
        seed=seed,
        remarks=remarks,
    )


def _check_supports(parameters: Sequence[Parameter], supports: Mapping[str, Sequence[ArrayLike]], n: int) -> None:
    tables = [p.name for p in parameters if p.table]
    for name, rows in supports.items():
        if name not in tables:
            raise ValueError(
                f"supports names {name!r}, which is no table of rare rows; these are: {', '.join(tables) or 'none'}"
            )
        if len(rows) != n:
            raise ValueError(f"supports[{name!r}] has rows for {len(rows)} clients; there are {n}")


def _client(
    i: int,
    example: Example,
    calls: Calls,
    parameters: Sequence[Parameter],
    supports: Mapping[str, Sequence[ArrayLike]],
    nobodys: Mapping[str, int],
    weight: float,
) -> ClientData:
    """A client's data, with row numbers of its own tables in place of those of all."""
    owned = {}
    for p in parameters:
        if p.table:
            occurring = np.setdiff1d(np.concatenate([numbers.ravel() for numbers in calls[p.name]]), nobodys.get(p.name, []))
            owned[p.name] = _checked_rows(i, p, occurring, supports[p.name][i]) if p.name in supports else occurring
    local = [_numbers(owned[table], numbers) for table, each in calls.items() for numbers in each]
    arrays = [tensor.detach().cpu().numpy() for tensor in example.tensors]
    return ClientData((*arrays, *local), tuple(owned.values()), weight)


def _numbers(rows: Integers, numbers: Integers) -> Integers:
    """Where the rows are among a client's own; any, for the padding."""
    return np.minimum(np.searchsorted(rows, numbers), max(0, len(rows) - 1))


def _checked_rows(client: int, table: Parameter, occurring: Integers, given: ArrayLike) -> Integers:
    rows = np.unique(np.asarray(given, dtype=np.int64))
    missing = np.setdiff1d(occurring, rows)
    if len(missing):
        raise ValueError(
            f"supports[{table.name!r}][{client}] has {len(rows)} rows but not {missing[0]}, which occurs in its data"
        )
    if len(rows) and not 0 <= rows[0] <= rows[-1] < table.shape[0]:
        raise ValueError(f"supports[{table.name!r}][{client}] has the row {rows[-1]}; the table has {table.shape[0]}")
    return rows


def _not_batched(framework: Modules, parameters: Sequence[Parameter], client: ClientData) -> str:
    """Why vmap cannot compute the module, if it cannot."""
    size = len(owned_numbers(parameters, client.rows))
    two = [client, client]
    (batch,) = batches(parameters, two, places(two, 2, framework.by_row), np.array([0, size, 2 * size]), 2)
    u = np.zeros(batch.positions.shape, dtype=framework.dtype)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of an operation that vmap computes one by one
            framework.gradients(u, batch.slices, batch.arrays, batch.weights)
    except Exception as error:  # whatever a module may raise
        return f"{type(error).__name__}: {str(error).splitlines()[0]:.100}"
    return ""


def load_into(module: nn.Module, x: Model | PerColumn) -> None:
    """Give the trainable parameters of the `module` the numbers of `x`, in the order of `problem`."""
    named = [(name, p) for name, p in module.named_parameters() if p.requires_grad]
    parts = load(x, [Parameter(name, tuple(p.shape)) for name, p in named])
    with torch.no_grad():
        for (_, parameter), part in zip(named, parts, strict=True):
            parameter.copy_(torch.from_numpy(part))
