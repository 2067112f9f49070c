"""Clients' data as tensors: what the module is called with, and what its output is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate


@dataclass(frozen=True, eq=False)
class Example:
    """All rows of one client: the module's arguments, and the target."""

    args: tuple[Tensor, ...]
    kwargs: dict[str, Tensor]
    target: Tensor

    @property
    def tensors(self) -> list[Tensor]:
        return [*self.args, *self.kwargs.values(), self.target]

    @property
    def m(self) -> int:
        return len(self.target)

    def first(self, rows: int) -> Example:
        """The first rows alone."""
        return Example(tuple(a[:rows] for a in self.args), {k: a[:rows] for k, a in self.kwargs.items()}, self.target[:rows])

    def like(self, tensors: Sequence[Tensor]) -> Example:
        """Other tensors in the same places."""
        n = len(self.args)
        return Example(tuple(tensors[:n]), dict(zip(self.kwargs, tensors[n:-1], strict=True)), tensors[-1])


def read(client: int, data: Any) -> Example:
    """A client's data: a pair (inputs, target) of tensors with the same number of rows, where inputs may be several in a
    tuple or dict; or a torch Dataset of such pairs, one per row."""
    if isinstance(data, Dataset):
        size = len(data)  # type: ignore[arg-type]
        if not size:
            raise ValueError(f"client {client} has no data; drop it")
        data = tuple(default_collate([data[k] for k in range(size)]))
    if not isinstance(data, tuple) or len(data) != 2:
        raise ValueError(
            f"client {client}: its data is a {type(data).__name__}; it must be a pair (inputs, target), or a Dataset"
        )
    inputs, target = data
    args = () if isinstance(inputs, dict) else tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    example = Example(args, inputs if isinstance(inputs, dict) else {}, target)
    _check(client, example)
    return example


def _check(client: int, example: Example) -> None:
    names = [f"inputs[{k}]" for k in range(len(example.args))] + [f"inputs[{k!r}]" for k in example.kwargs] + ["the target"]
    for name, tensor in zip(names, example.tensors, strict=True):
        if not isinstance(tensor, torch.Tensor):
            raise ValueError(f"client {client}: {name} is a {type(tensor).__name__}; it must be a tensor (torch.as_tensor)")
        if not tensor.ndim:
            raise ValueError(f"client {client}: {name} is one number; it must have one entry per row of data")
        if not len(tensor):
            raise ValueError(f"client {client} has no data ({name} has no rows); drop it")
        if len(tensor) != example.m:
            raise ValueError(
                f"client {client}: {name} has {len(tensor)} rows, but the target {example.m}; they must have the same"
            )
