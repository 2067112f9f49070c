"""Embedding tables of which a client has some rows: which rows occur in its data, and how a module reads those alone.

A module's embedding layers say with which row numbers they are called (`recorded_calls`); in the copy that clients compute
with, each is replaced by a layer whose table has a client's own rows, and which is handed the numbers of these rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from errorfeedback.core import Integers
from errorfeedback.interop.torch.client_data import Example

Calls: TypeAlias = dict[str, list[Integers]]
"""Row numbers by table, one array for every call of its layer."""
LAYERS: tuple[type[nn.Module], ...] = (nn.Embedding, nn.EmbeddingBag)


class LocalTable(nn.Module):
    """An embedding of some rows, called with numbers that were worked out before."""

    def __init__(self, layer: nn.Embedding | nn.EmbeddingBag) -> None:
        super().__init__()
        self.weight = nn.Parameter(layer.weight.new_empty(0))
        self.padding = -1 if layer.padding_idx is None else layer.padding_idx
        """The row that stands for nothing; -1 is no row."""
        self.fill = layer.weight.detach()[self.padding].clone()
        self.numbers: list[Tensor] = []
        """The rows' numbers in this client's table, for one call of the layer after the other."""

    def vectors(self, given: Tensor) -> Tensor:
        """The rows; that of the padding is nobody's, and stays as it is."""
        rows = functional.embedding(self.numbers.pop(0), self.weight)
        return rows if self.padding < 0 else torch.where(given.eq(self.padding)[..., None], self.fill, rows)

    def forward(self, given: Tensor) -> Tensor:
        return self.vectors(given)


class LocalBag(LocalTable):
    """The same for sums and means of rows."""

    def __init__(self, layer: nn.EmbeddingBag) -> None:
        super().__init__(layer)
        self.mode = layer.mode

    def forward(self, given: Tensor, offsets: None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        rows = self.vectors(given)
        counted = given.ne(self.padding).to(given.dtype)
        weights = counted.to(rows.dtype) if per_sample_weights is None else per_sample_weights * counted
        total = (rows * weights[..., None]).sum(-2)
        return total if self.mode == "sum" else total / counted.sum(-1, keepdim=True).clamp(min=1).to(rows.dtype)


def tables_of(module: nn.Module, common: Sequence[str]) -> dict[str, str]:
    """The embedding layers that may be read by rows, by the name of their table: tables that other layers use too, that are
    frozen or that the user calls common are not."""
    layers = {name: layer for name, layer in module.named_modules() if type(layer) in LAYERS}
    uses: dict[int, int] = {}
    for _, parameter in module.named_parameters(remove_duplicate=False):
        uses[id(parameter)] = uses.get(id(parameter), 0) + 1
    seen = {id(layer): 0 for layer in layers.values()}
    for parent in module.modules():
        for child in parent._modules.values():
            seen[id(child)] = seen.get(id(child), 0) + 1
    out = {}
    for name, layer in layers.items():
        table = f"{name}.weight" if name else "weight"
        weight: Any = layer.weight
        if table not in common and weight.requires_grad and uses[id(weight)] == max(1, seen[id(layer)]):
            check_layer(name, layer)
            out[table] = name
    return out


def padding_of(module: nn.Module, tables: Mapping[str, str]) -> dict[str, int]:
    """The rows that stand for nothing: they are nobody's, and are not trained."""
    layers: dict[str, Any] = {table: module.get_submodule(name) for table, name in tables.items()}
    return {table: layer.padding_idx for table, layer in layers.items() if layer.padding_idx is not None}


def check_layer(name: str, layer: Any) -> None:
    """Raise where an embedding does more than to look rows up."""
    if layer.max_norm is not None or layer.scale_grad_by_freq:
        raise ValueError(
            f"the embedding {name!r} has max_norm or scale_grad_by_freq, so its gradients are not the loss's; leave them out"
        )
    if isinstance(layer, nn.EmbeddingBag) and layer.mode == "max":
        raise ValueError(f"the EmbeddingBag {name!r} has mode='max'; use 'sum' or 'mean'")


def localised(module: nn.Module, whole: nn.Module, tables: Mapping[str, str]) -> tuple[nn.Module, dict[str, LocalTable]]:
    """A copy of the whole module with these embeddings replaced in place, and what replaced them."""
    made = {}
    for table, name in tables.items():
        replaced, layer = module.get_submodule(name), whole.get_submodule(name)
        assert isinstance(layer, (nn.Embedding, nn.EmbeddingBag)), "tables_of gives no others"
        made[table] = LocalBag(layer) if isinstance(layer, nn.EmbeddingBag) else LocalTable(layer)
        if not name:
            return made[table], made
        for parent in module.modules():
            for key, child in list(parent._modules.items()):
                if child is replaced:
                    parent._modules[key] = made[table]
    return module, made


def recorded_calls(
    module: nn.Module, examples: Sequence[Example], tables: Mapping[str, str]
) -> tuple[list[Calls], dict[str, str]]:
    """The row numbers that every client's data ask the tables for; and the tables that are read by rows of data. A table
    that is not (positions, row numbers that depend on parameters) is common to all."""
    calls = [_calls(i, module, example, tables) for i, example in enumerate(examples)]
    longest = max(range(len(examples)), key=lambda i: examples[i].m)
    fewer = _calls(longest, module, examples[longest].first(max(1, examples[longest].m - 1)), tables)
    other = deepcopy(module)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(torch.linspace(-1, 1, parameter.numel(), dtype=parameter.dtype).reshape(parameter.shape))
    elsewhere = _calls(longest, other, examples[longest], tables)
    rare = {
        table: name
        for table, name in tables.items()
        if _same(calls[longest][table], elsewhere[table])
        and _same([numbers[: len(part)] for numbers, part in zip(calls[longest][table], fewer[table])], fewer[table])  # noqa: B905
        and all(len(each[table]) == len(fewer[table]) for each in calls)
        and all(numbers.ndim and len(numbers) == examples[i].m for i, each in enumerate(calls) for numbers in each[table])
        and fewer[table]
    }
    return [{table: each[table] for table in rare} for each in calls], rare


def _same(one: Sequence[Integers], other: Sequence[Integers]) -> bool:
    return len(one) == len(other) and all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def _calls(client: int, module: nn.Module, example: Example, tables: Mapping[str, str]) -> Calls:
    """With which row numbers the tables' layers are called, one call after the other."""
    calls: Calls = {table: [] for table in tables}

    def recorder(table: str) -> Any:
        def record(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if type(layer) is nn.EmbeddingBag and (len(args) > 1 or kwargs.get("offsets") is not None):
                raise ValueError(
                    f"{table!r} is called with offsets; give the EmbeddingBag one row of numbers per row of data"
                )
            calls[table].append((args[0] if args else kwargs["input"]).detach().cpu().numpy().astype(np.int64))

        return record

    hooks = [
        module.get_submodule(name).register_forward_pre_hook(recorder(table), with_kwargs=True)
        for table, name in tables.items()
    ]
    try:
        with torch.no_grad():
            module(*example.args, **example.kwargs)
    except Exception as error:
        raise ValueError(
            f"the module cannot compute the data of client {client}: {type(error).__name__}: {error}"
        ) from error
    finally:
        for hook in hooks:
            hook.remove()
    return calls
