"""Values and gradients of several clients by JAX: vmap over padded batches, compiled once for every shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import Floats, PerColumn
from errorfeedback.interop.batches import Slice, rounded_up, weights_of
from errorfeedback.interop.layout import ClientData, Parameter
from errorfeedback.interop.models import Framework, load

JaxLoss = Callable[[Any, Any], Any]
Apply = Callable[..., Any]
Compiled = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Pytrees(Framework):
    """`apply(params, *inputs)` and its loss."""

    apply: Apply
    loss: JaxLoss
    tree: Any
    """How the parameters are nested."""
    parameters: Sequence[Parameter]
    whole: Sequence[ClientData]
    """All clients' data with the row numbers of whole tables."""
    by_row: bool
    compiled: dict[tuple[Slice, ...], tuple[Compiled, Compiled]] = field(default_factory=dict)
    """Values and gradients, for every shape."""

    def another(self) -> Pytrees:
        return self  # it has no state

    def losses(self, u: Floats, slices: Sequence[Slice], arrays: Sequence[NDArray[Any]], weights: Floats) -> Floats:
        return np.asarray(self._compiled(tuple(slices))[0](u, weights.astype(u.dtype), *arrays))

    def gradients(
        self, u: Floats, slices: Sequence[Slice], arrays: Sequence[NDArray[Any]], weights: Floats
    ) -> tuple[Floats, Floats]:
        values, grads = self._compiled(tuple(slices))[1](u, weights.astype(u.dtype), *arrays)
        return np.asarray(values), np.asarray(grads)

    def of_whole(self, x: PerColumn, client: int) -> tuple[float, Floats]:
        data, leaves = self.whole[client], load(x, self.parameters)
        pick = np.arange(rounded_up(data.m) if self.by_row else data.m) % data.m  # few shapes: each is compiled
        weights = weights_of(np.array([data.m]), len(pick), np.ones(1))[0].astype(x.dtype)
        value, grads = self._of_whole(leaves, weights, [array[pick] for array in data.arrays])
        return float(value), np.concatenate([np.asarray(g).ravel() for g in grads])

    @cached_property
    def _of_whole(self) -> Compiled:
        return jax.jit(jax.value_and_grad(self._loss))

    def _compiled(self, slices: tuple[Slice, ...]) -> tuple[Compiled, Compiled]:
        if slices not in self.compiled:
            self.compiled[slices] = self._compile(slices)
        return self.compiled[slices]

    def _compile(self, slices: tuple[Slice, ...]) -> tuple[Compiled, Compiled]:
        def f(u: Any, weights: Any, *arrays: Any) -> Any:
            return self._loss([u[s.start : s.stop].reshape(s.shape) for s in slices], weights, arrays)

        return jax.jit(jax.vmap(f)), jax.jit(jax.vmap(jax.value_and_grad(f)))

    def _loss(self, leaves: Sequence[Any], weights: Any, arrays: Sequence[Any]) -> Any:
        *inputs, target = arrays
        losses = self.loss(self.apply(jax.tree.unflatten(self.tree, leaves), *inputs), target)
        return (losses.reshape(len(weights), -1).mean(1) * weights).sum() if self.by_row else losses * weights.sum()


def checked_leaves(params: Any) -> tuple[list[str], list[NDArray[Any]], Any]:
    """The names of the parameters, their numbers, and how they are nested."""
    with_paths, tree = jax.tree.flatten_with_path(params)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in with_paths]
    leaves = [np.asarray(leaf) for _, leaf in with_paths]
    if not leaves:
        raise ValueError("params has no parameters, so there is nothing to train")
    for name, leaf in zip(names, leaves, strict=True):
        if leaf.dtype not in (np.float64, np.float32) or leaf.dtype != leaves[0].dtype:
            raise ValueError(f"the parameter {name!r} is of {leaf.dtype}; all must be of float64 or all of float32")
    if leaves[0].dtype == np.float64 and jnp.zeros(0).dtype != np.float64:
        raise ValueError(
            "params is of float64, which JAX would round to float32; set jax.config.update('jax_enable_x64', True)"
        )
    return names, leaves, tree


def checked_client(client: int, data: Any, tables: Mapping[str, int]) -> tuple[NDArray[Any], ...]:
    """The inputs and the target of a client, with the same number of rows each."""
    if not isinstance(data, tuple) or len(data) != 2:
        raise ValueError(f"client {client}: its data is a {type(data).__name__}; it must be a pair (inputs, target)")
    inputs = data[0] if isinstance(data[0], (tuple, list)) else (data[0],)
    arrays = tuple(np.asarray(each) for each in (*inputs, data[1]))
    for k, array in enumerate(arrays):
        name = f"inputs[{k}]" if k < len(inputs) else "the target"
        if not array.ndim or not len(array):
            raise ValueError(f"client {client} has no data ({name} has no rows); drop it")
        if len(array) != len(arrays[-1]):
            raise ValueError(f"client {client}: {name} has {len(array)} rows, but the target {len(arrays[-1])}")
    for table, k in tables.items():
        if not 0 <= k < len(inputs) or arrays[k].dtype.kind not in "iu":
            raise ValueError(f"tables[{table!r}] = {k}; it must be the number of an input that holds whole numbers")
    return arrays
