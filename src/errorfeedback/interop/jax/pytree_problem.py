"""`ef.jax.problem`: f_i(x) = the mean of loss(apply(params, *inputs), target) over the client's rows.

x is the leaves of `params` in the order of `jax.tree.flatten`, each flattened row by row. A table is a leaf that is read by
the row numbers in one of the inputs alone: of it a client has the rows that occur there. Every other leaf is common to all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from errorfeedback.core import Model, PerColumn
from errorfeedback.interop.batches import PER_CALL
from errorfeedback.interop.jax.pytrees import Apply, JaxLoss, Pytrees, checked_client, checked_leaves
from errorfeedback.interop.layout import ClientData, Parameter
from errorfeedback.interop.models import SUMMED, ModelProblem, checked_weights, doubled, load, model_problem
from errorfeedback.problems.estimated import Estimated


def problem(
    apply: Apply,
    params: Any,
    loss: JaxLoss,
    client_datasets: Sequence[Any],
    *,
    tables: Mapping[str, int] | None = None,
    client_weights: Sequence[float] | None = None,
    clients_per_call: int = PER_CALL,
    lower_bound: float = -inf,
    smoothness: ArrayLike | Estimated | None = None,
    check: bool = True,
    seed: int = 0,
) -> ModelProblem:
    """The problem of training `params` over these clients, `apply(params, inputs)` being the model; x0 is params as they
    are.

    `loss(output, target)`: one number per row, or their mean. `client_datasets`: for each client (inputs, target), inputs
    one array or several in a tuple. `tables`: for a leaf of which clients have some rows, by its name ("items", or
    "layer.items" where it is nested), the number of the input that holds its row numbers. The other options are those of
    `ef.torch.problem`.
    """
    tables = dict(tables or {})
    names, leaves, tree = checked_leaves(params)
    for name in tables:
        if name not in names:
            raise ValueError(f"tables names {name!r}, but the parameters are {', '.join(names)}")
    given = [checked_client(i, data, tables) for i, data in enumerate(client_datasets)]
    if not given:
        raise ValueError("there are no clients; give a list with the data of each")
    parameters = [Parameter(name, leaf.shape, name in tables) for name, leaf in zip(names, leaves, strict=True)]
    weights = checked_weights(client_weights, len(given))
    clients = [_client(i, arrays, parameters, tables, weights[i]) for i, arrays in enumerate(given)]
    whole = [ClientData(arrays, ()) for arrays in given]
    return model_problem(
        parameters,
        clients,
        Pytrees(apply, loss, tree, parameters, whole, _by_row(apply, params, loss, given[0])),
        np.concatenate([leaf.ravel() for leaf in leaves]),
        dtype=leaves[0].dtype,
        per_call=clients_per_call,
        lower_bound=lower_bound,
        smoothness=smoothness,
        check=check,
        seed=seed,
        remarks=(),
    )


def params_of(params: Any, x: Model | PerColumn) -> Any:
    """The numbers of `x`, nested as `params` is."""
    names, leaves, tree = checked_leaves(params)
    shapes = [Parameter(name, leaf.shape) for name, leaf in zip(names, leaves, strict=True)]
    return jax.tree.unflatten(tree, [jnp.asarray(part, dtype=leaves[0].dtype) for part in load(x, shapes)])


def _client(
    i: int, arrays: tuple[NDArray[Any], ...], parameters: Sequence[Parameter], tables: Mapping[str, int], weight: float
) -> ClientData:
    """A client's data, with row numbers of its own tables in place of those of all."""
    local, rows = list(arrays), {}
    for k in set(tables.values()):
        rows[k], numbers = np.unique(arrays[k], return_inverse=True)
        local[k] = numbers.reshape(arrays[k].shape)
    owned = [rows[tables[p.name]] for p in parameters if p.table]
    for p, mine in zip((p for p in parameters if p.table), owned, strict=True):
        if not 0 <= mine[0] <= mine[-1] < p.shape[0]:
            wrong = mine[0] if mine[0] < 0 else mine[-1]
            raise ValueError(
                f"client {i}: inputs[{tables[p.name]}] has the row {wrong}, but {p.name!r} has {p.shape[0]} rows"
            )
    return ClientData(tuple(local), tuple(owned), weight)


def _by_row(apply: Apply, params: Any, loss: JaxLoss, arrays: Sequence[NDArray[Any]]) -> bool:
    """Whether the loss has one number per row."""
    out = _loss_of(apply, params, loss, arrays)
    shape, m = np.shape(out), len(arrays[-1])
    if shape and shape[0] != m:
        raise ValueError(f"the loss has shape {shape} for {m} rows; it must be one number, or one per row")
    if not shape and doubled(float(out), float(_loss_of(apply, params, loss, [np.concatenate([a, a]) for a in arrays]))):
        raise ValueError(SUMMED)
    return bool(shape)


def _loss_of(apply: Apply, params: Any, loss: JaxLoss, arrays: Sequence[NDArray[Any]]) -> Any:
    *inputs, target = arrays
    try:
        return loss(apply(params, *inputs), target)
    except Exception as error:
        raise ValueError(f"the model cannot compute the loss of client 0: {type(error).__name__}: {error}") from error
