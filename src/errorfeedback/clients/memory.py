"""The clients' memory in client order: joined from any number of shards, cut into any number of shards.

A memory is None, a number or text, or a tuple, list, dict or dataclass of memories, or an array with one entry (of any
shape) per position of the lifted space or one per client; an empty array stands for nothing yet. What has one number per
row, or per pair of a client's features, is a `RowMemory`. What is the same on every shard is `Shared`, whatever its shape.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from errorfeedback.core import RowMemory
from errorfeedback.sparsity.support import Support
from errorfeedback.storage.packing import fingerprint

Lengths: TypeAlias = tuple[int, int]
"""How many clients a shard has, and how many positions of the lifted space."""


def lengths_of(support: Support) -> Lengths:
    return support.n, support.size


@dataclass(frozen=True, eq=False)
class Shared:
    """A part of the clients' memory that every shard has, and has alike: arrays of any shape, in any structure.

    >>> shards = [(np.zeros(3), Shared(np.eye(2))), (np.ones(2), Shared(np.eye(2)))]
    >>> own, common = joined_memory(shards)
    >>> own.tolist(), common.value.shape
    ([0.0, 0.0, 0.0, 1.0, 1.0], (2, 2))
    """

    value: Any
    """The memory itself."""


def copied(memory: Any, room: Any) -> Any:
    """A copy; arrays go where those of an earlier copy are, where they fit: a fresh one costs more than what is in it.

    >>> room = np.zeros(2)
    >>> copied((np.ones(2), "x"), (room, "y"))[0] is room
    True
    """
    if isinstance(memory, np.ndarray) and isinstance(room, np.ndarray):
        if (memory.shape, memory.dtype) == (room.shape, room.dtype) and memory is not room:
            np.copyto(room, memory)
            return room
    elif type(memory) is tuple and type(room) is tuple and len(memory) == len(room):
        return tuple(copied(each, old) for each, old in zip(memory, room, strict=True))
    return deepcopy(memory)


def joined_memory(parts: Sequence[Any]) -> Any:
    """One memory for all shards."""
    return map_memory(lambda *leaves: np.concatenate(leaves), *parts)


def cut_memory(memory: Any, lengths: Sequence[Lengths]) -> list[Any]:
    """One memory per shard, where shards of these lengths come one after the other."""
    clients, positions = (np.concatenate([[0], np.cumsum(column)]) for column in zip(*lengths, strict=True))
    ends = {int(each[-1]): each for each in (positions, clients, np.zeros_like(clients))}

    def piece(array: np.ndarray[Any, Any] | RowMemory, k: int) -> np.ndarray[Any, Any] | RowMemory:
        if isinstance(array, RowMemory):
            lo, hi = clients[k], clients[k + 1]
            first, last = array.counts[:lo].sum(), array.counts[:hi].sum()
            return RowMemory(array.values[first:last].copy(), array.counts[lo:hi].copy())
        if len(array) not in ends:
            raise ValueError(
                f"a client memory has {len(array)} entries; it must have one per position ({positions[-1]}) "
                f"or one per client ({clients[-1]})"
            )
        return array[ends[len(array)][k] : ends[len(array)][k + 1]].copy()

    of = (np.ndarray, RowMemory)
    return [map_memory(lambda leaf, k=k: piece(leaf, k), memory, of=of) for k in range(len(lengths))]


def map_memory(leaf: Callable[..., Any], *trees: Any, of: type[Any] | tuple[type[Any], ...] = np.ndarray) -> Any:
    """One memory of the same structure, its arrays (or what else it is made `of`) made by `leaf` from those of the given.

    >>> map_memory(lambda a, b: a + b, (np.ones(2), None), (np.ones(2), None))
    (array([2., 2.]), None)
    """
    first = trees[0]
    if isinstance(first, of):
        return leaf(*trees)
    if isinstance(first, (tuple, list)):
        return type(first)(map_memory(leaf, *parts, of=of) for parts in zip(*trees, strict=True))
    if isinstance(first, dict):
        return {key: map_memory(leaf, *(tree[key] for tree in trees), of=of) for key in first}
    if isinstance(first, Shared):
        return _alike(trees)
    if is_dataclass(first) and not isinstance(first, type):
        names = [each.name for each in fields(first) if each.init]
        return replace(first, **{name: map_memory(leaf, *(getattr(tree, name) for tree in trees), of=of) for name in names})
    return first


def _alike(trees: Sequence[Shared]) -> Shared:
    if len({fingerprint(tree.value) for tree in trees}) > 1:
        raise ValueError("a memory that is Shared differs between two shards; what differs has one entry per client")
    return deepcopy(trees[0])
