"""Values and gradients of several clients by torch.func: vmap over padded batches, or one by one where that fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

from errorfeedback.core import Floats, PerColumn
from errorfeedback.interop.batches import Slice
from errorfeedback.interop.layout import Parameter
from errorfeedback.interop.models import Framework, load
from errorfeedback.interop.torch.client_data import Example
from errorfeedback.interop.torch.embedding_tables import localised

TorchLoss = Callable[[Any, Tensor], Tensor]


class Modules(Framework):
    """Values and gradients of clients from a copy of the module in which tables are local."""

    def __init__(
        self,
        module: nn.Module,
        loss: TorchLoss,
        tables: Mapping[str, str],
        calls: Sequence[str],
        examples: Sequence[Example],
    ) -> None:
        self.module, self.loss, self.layers, self.examples = module, loss, tables, examples
        self.calls = calls
        """The table that each array of row numbers belongs to."""
        self.names = [name for name, p in module.named_parameters() if p.requires_grad]
        first = module.get_parameter(self.names[0])
        self.device, self.dtype = first.device, first.detach().cpu().numpy().dtype
        self.local, self.tables = localised(_emptied(module, self.names), module, tables)
        self.by_row = self._loss(module, examples[0]).ndim > 0

    def another(self) -> Modules:
        return Modules(self.module, self.loss, self.layers, self.calls, self.examples)

    def losses(self, u: Floats, slices: Sequence[Slice], arrays: Sequence[NDArray[Any]], weights: Floats) -> Floats:
        with torch.no_grad():
            f, given = self._function(slices), self._tensors(u, weights, arrays)
            out = vmap(f)(*given) if len(u) > 1 else f(*(each[0] for each in given))[None]
        return out.cpu().numpy()

    def gradients(
        self, u: Floats, slices: Sequence[Slice], arrays: Sequence[NDArray[Any]], weights: Floats
    ) -> tuple[Floats, Floats]:
        f, (at, *given) = self._function(slices), self._tensors(u, weights, arrays)
        if len(u) > 1:
            grads, values = vmap(grad_and_value(f))(at, *given)
        else:
            at.requires_grad_()
            values = f(at[0], *(each[0] for each in given))[None]
            (grads,) = torch.autograd.grad(values.sum(), at)
        return values.detach().cpu().numpy(), grads.cpu().numpy()

    def _tensors(self, u: Floats, weights: Floats, arrays: Sequence[NDArray[Any]]) -> list[Tensor]:
        given = (u, weights.astype(u.dtype), *arrays)
        return [torch.from_numpy(each).to(self.device) for each in given]

    def _function(self, slices: Sequence[Slice]) -> Callable[..., Tensor]:
        """f_i of one client: its padded vector, the weights of its rows, its data, and row numbers of tables."""
        like, count = self.examples[0], len(self.examples[0].tensors)

        def f(u: Tensor, weights: Tensor, *arrays: Tensor) -> Tensor:
            for table in self.tables.values():
                table.numbers.clear()
            for name, numbers in zip(self.calls, arrays[count:], strict=True):
                self.tables[name].numbers.append(numbers)
            parameters = {s.name: u[s.start : s.stop].reshape(s.shape) for s in slices}
            losses = self._loss(self.local, like.like(arrays[:count]), parameters)
            return losses * weights.sum() if not self.by_row else (losses.reshape(len(weights), -1).mean(1) * weights).sum()

        return f

    def _loss(self, module: nn.Module, example: Example, parameters: Mapping[str, Tensor] | None = None) -> Tensor:
        out = functional_call(module, dict(parameters or {}), example.args, example.kwargs)
        return self.loss(out, example.target)

    def of_whole(self, x: PerColumn, client: int) -> tuple[float, Floats]:
        shapes = [Parameter(name, tuple(self.module.get_parameter(name).shape)) for name in self.names]
        parts = [torch.from_numpy(part.copy()).to(self.device).requires_grad_() for part in load(x, shapes)]
        loss = self._loss(self.module, self.examples[client], dict(zip(self.names, parts, strict=True))).mean()
        grads = torch.autograd.grad(loss, parts, materialize_grads=True)
        return float(loss.detach()), np.concatenate([g.to_dense().detach().cpu().numpy().ravel() for g in grads])


def _emptied(module: nn.Module, names: Sequence[str]) -> nn.Module:
    """A copy without the numbers of these parameters, which are handed in with every call."""
    shared = {id(module.get_parameter(name)): nn.Parameter(module.get_parameter(name).new_empty(0)) for name in names}
    return deepcopy(module, shared)  # what is in `shared` is not copied
