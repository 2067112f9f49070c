"""Clients that are computed in one call of a framework, padded to the same shapes, and where each has its place.

Clients are grouped by the shapes of their data, with the rows of tables (and of data, where the loss is given by row)
rounded up to a few sizes. Within a group a client always has the same place of the same number of places, also in a shard:
the rounding of a batched product depends on the place (by the alignment of its memory), and every shard must give the same
bits.
Places that are empty in a shard repeat a client that is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from errorfeedback.core import Floats, Integers
from errorfeedback.interop.layout import ClientData, Parameter

ALIGNED = 16
"""Numbers: parameters begin at multiples of it in a padded vector, where products read them fastest."""
PER_CALL = 32
"""Clients in one call."""


def rounded_up(size: int) -> int:
    """The next power of two, 8 at least: calls cost more than numbers.

    >>> [rounded_up(k) for k in (1, 9, 16, 100)]
    [8, 16, 16, 128]
    """
    return max(8, 1 << (size - 1).bit_length())


@dataclass(frozen=True)
class Shape:
    """What all clients of a group have alike."""

    kind: Hashable
    rows: tuple[int, ...]
    """Of every table, with padding."""
    m: int
    """Rows of data, with padding."""


@dataclass(frozen=True)
class BatchPlace:
    """Where a client is computed: which shape, which batch of that shape, and which place in it."""

    shape: Shape
    batch: int
    slot: int


def places(clients: Sequence[ClientData], per_call: int, by_row: bool) -> list[BatchPlace]:
    """A place for every client. `by_row`: the loss is given for each row, so that rows can be padded."""
    seen: Counter[Shape] = Counter()
    out = []
    for client in clients:
        rows, m = tuple(max(1, len(rows)) for rows in client.rows), client.m
        if per_call > 1:
            rows, m = tuple(rounded_up(k) for k in rows), rounded_up(m) if by_row else m
        shape = Shape(client.kind, rows, m)
        out.append(BatchPlace(shape, *divmod(seen[shape], per_call)))
        seen[shape] += 1
    return out


@dataclass(frozen=True)
class Slice:
    """Where a parameter is in a client's padded vector."""

    name: str
    start: int
    stop: int
    shape: tuple[int, ...]


def slices_of(parameters: Sequence[Parameter], shape: Shape) -> tuple[tuple[Slice, ...], int]:
    """The slices of a padded vector, and its length."""
    start, out = 0, []
    rows = iter(shape.rows)
    for p in parameters:
        local = p.local(next(rows) if p.table else 0)
        size = int(np.prod(local))
        out.append(Slice(p.name, start, start + size, local))
        start += -(-size // ALIGNED) * ALIGNED
    return tuple(out), start


@dataclass(frozen=True, eq=False)
class Batch:
    """Clients of a shard that are computed in one call."""

    slices: tuple[Slice, ...]
    members: Integers
    """(slots,): the client (of the shard) at each place."""
    present: NDArray[np.bool_]
    """(slots,): False where it only fills an empty place."""
    positions: Integers
    """(slots, length): where each entry of the padded vectors comes from in the lifted space."""
    nowhere: int
    """The position of padding: the length of the lifted space."""
    arrays: tuple[NDArray[Any], ...]
    """(slots, rows, ...): the data, padded by repeating the first row."""
    counts: Integers
    """(slots,): rows that are not padding."""
    shares: Floats
    """(slots,): what every f_i is multiplied with."""

    @cached_property
    def owned(self) -> NDArray[np.bool_]:
        """(slots, length): the entries of clients that are there."""
        return (self.positions < self.nowhere) & self.present[:, None]

    @cached_property
    def weights(self) -> Floats:
        """(slots, rows): share / m_i, and 0 for padding."""
        return weights_of(self.counts, self.arrays[0].shape[1], self.shares)


def weights_of(counts: Integers, length: int, shares: Floats) -> Floats:
    """(slots, length): share / count for the first `count` entries."""
    inside = np.arange(length) < counts[:, None]
    return inside * (shares / counts)[:, None]


def batches(
    parameters: Sequence[Parameter],
    clients: Sequence[ClientData],
    where: Sequence[BatchPlace],
    ends: Integers,
    per_call: int,
) -> Iterator[Batch]:
    """The batches of a shard's clients, whose segments of the lifted space end at `ends`."""
    members: dict[tuple[Shape, int], list[int]] = {}
    for i, place in enumerate(where):
        members.setdefault((place.shape, place.batch), []).append(i)
    for (shape, _), group in members.items():
        slices, length = slices_of(parameters, shape)
        slots = np.full(per_call, group[0])
        slots[[where[i].slot for i in group]] = group
        present = np.zeros(per_call, dtype=bool)
        present[[where[i].slot for i in group]] = True
        rows = [_positions(parameters, slices, clients[i], int(ends[i]), length, int(ends[-1])) for i in slots]
        chosen = [np.minimum(np.arange(shape.m), clients[i].m) % clients[i].m for i in slots]
        arrays = [
            np.stack([clients[i].arrays[k][pick] for i, pick in zip(slots, chosen, strict=True)])
            for k in range(len(clients[group[0]].arrays))
        ]
        counts = np.array([clients[i].m for i in slots])
        shares = np.array([clients[i].weight for i in slots])
        yield Batch(slices, slots, present, np.stack(rows), int(ends[-1]), tuple(arrays), counts, shares)


def _positions(
    parameters: Sequence[Parameter], slices: Sequence[Slice], client: ClientData, start: int, length: int, nowhere: int
) -> Integers:
    """Where each entry of a client's padded vector is in the lifted space."""
    out: Integers = np.full(length, nowhere, dtype=np.int64)
    rows = iter(client.rows)
    for p, piece in zip(parameters, slices, strict=True):
        size = len(next(rows)) * p.row if p.table else p.size
        out[piece.start : piece.start + size] = start + np.arange(size)
        start += size
    return out
