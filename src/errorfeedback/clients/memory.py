"""The clients' memory in client order: joined from any number of shards, cut into any number of shards.

A memory is None, a number or text, or a tuple, list or dict of memories, or an array with one entry per position of the
lifted space or one per client; an empty array stands for nothing yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

Lengths: TypeAlias = tuple[int, int]
"""How many clients a shard has, and how many positions of the lifted space."""


def joined_memory(parts: Sequence[Any]) -> Any:
    """One memory for all shards."""
    return _map(lambda *leaves: np.concatenate(leaves), *parts)


def cut_memory(memory: Any, lengths: Sequence[Lengths]) -> list[Any]:
    """One memory per shard, where shards of these lengths come one after the other."""
    clients, positions = (np.concatenate([[0], np.cumsum(column)]) for column in zip(*lengths, strict=True))
    ends = {int(clients[-1]): clients, int(positions[-1]): positions, 0: np.zeros_like(clients)}

    def piece(array: np.ndarray[Any, Any], k: int) -> np.ndarray[Any, Any]:
        if len(array) not in ends:
            raise ValueError(
                f"a client memory has {len(array)} entries; it must have one per position ({positions[-1]}) "
                f"or one per client ({clients[-1]})"
            )
        return array[ends[len(array)][k] : ends[len(array)][k + 1]].copy()

    return [_map(lambda leaf, k=k: piece(leaf, k), memory) for k in range(len(lengths))]


def _map(leaf: Callable[..., Any], *trees: Any) -> Any:
    first = trees[0]
    if isinstance(first, np.ndarray):
        return leaf(*trees)
    if isinstance(first, (tuple, list)):
        return type(first)(_map(leaf, *parts) for parts in zip(*trees, strict=True))
    if isinstance(first, dict):
        return {key: _map(leaf, *(tree[key] for tree in trees)) for key in first}
    return first
