"""A parameter with sparse gradients (`torch.nn.Embedding(..., sparse=True)`): J_i are the rows that process i has touched.

Memory is O(rows touched): the client's on J_i, the server's on the rows that anybody has sent. Both grow; a new row begins
at zero. Messages name the numbers of the whole table, as nobody knows the J_i of others; so the compressor must be one that
names what it sends, TopK or few bits for what TopK selects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch

from errorfeedback.clients.memory import map_memory
from errorfeedback.core import Floats, Integers, Lifted, Round
from errorfeedback.interop.torch.tracked import ONE_BIT, ProcessRank, Saved, Tracked
from errorfeedback.methods.base import Method
from errorfeedback.sparsity.support import Support, add_at, runs
from errorfeedback.wire.bits import Bytes
from errorfeedback.wire.codec import decode, encode
from errorfeedback.wire.frames import Frames, bits_per_index
from errorfeedback.wire.message import Message

LENGTH = np.dtype("<u4")
"""Messages have as many bytes as the longest may have; this many at the front say how long it is."""
NO_ROWS = np.empty(0, dtype=np.int64)
FIRST_ROW = np.zeros(1, dtype=np.int64)
"""A client owns something: a process that has touched no row yet owns the first."""


class TableParameter(Tracked):
    """`rows`: J_i, ascending; `served_rows`: those of the server's memory."""

    kind: ClassVar[str] = "table"

    def __init__(self, name: str, parameter: torch.Tensor, method: Method, process: ProcessRank) -> None:
        super().__init__(name, parameter, method, process)
        self.width = self.size // len(parameter)
        self.rows: Integers = FIRST_ROW
        self.served_rows: Integers = NO_ROWS
        self.whole = [self._support(np.broadcast_to(np.int64(0), (self.size,)), i) for i in range(process.ranks)]
        self.method = method.bind(self.whole[process.rank])
        self._check_names()
        self.operator = self.method.compressor.on(self._owned())
        self.longest = [self._longest(support) for support in self.whole]

    def _support(self, features: Integers, rank: int) -> Support:
        """A process with these numbers of the table. (Those of `whole` are all the same: the wire asks for ends alone.)"""
        ends, ranks = np.array([0, len(features)]), self.process.ranks
        owners = np.broadcast_to(ranks, (self.size,))
        return Support(indptr=ends, indices=features, d=self.size, first=rank, counts=owners, n_total=ranks)

    def _owned(self) -> Support:
        return self._support(runs(self.rows, self.width), self.process.rank)

    def _check_names(self) -> None:
        operator = self.method.compressor.on(self.whole[self.process.rank])
        for t in (0, 1):
            positions = self.method.known(operator, Round(t, self.process.seed)).positions
            if positions is None or len(positions):
                raise ValueError(
                    f"{self.name!r} has sparse gradients, and {self.method} does not say which numbers it sends, and others "
                    "cannot know; give it TopK(k), or Rounded(TopK(k), PowersOfTwo(4)) for few bits, and start='compressed'"
                )

    def lengths(self) -> list[int]:
        return self.longest

    def _longest(self, support: Support) -> int:
        """Bytes of the longest message of a process."""
        compressor = self.method.compressor
        counts = compressor.most_entries(support).astype(np.int64)
        frames = Frames(counts, counts * bits_per_index(support.sizes), compressor.coding, announced=False)
        return LENGTH.itemsize + frames.cost(len(ONE_BIT), 8 * self.dtype.itemsize).bits // 8

    def message(self, gradient: torch.Tensor) -> Bytes:
        gradient = gradient.coalesce()
        touched = gradient.indices()[0].numpy()
        self._own(touched)
        left = np.zeros((len(self.rows), self.width), dtype=self.dtype)
        left[np.searchsorted(self.rows, touched)] = gradient.values().numpy().reshape(len(touched), self.width)
        message, beside = self.spoken(Lifted(left.ravel()), self.operator)
        frame = encode(self._named(message), None, self.ctx, beside, ONE_BIT)
        return np.concatenate([np.array([len(frame)], dtype=LENGTH).view(np.uint8), frame])

    def _own(self, touched: Integers) -> None:
        """J_i with these rows."""
        rows = joined(self.rows, touched)
        if len(rows) > len(self.rows):
            self.client = relaid(self.client, self.rows, rows, self.width)
            self.rows = rows
            self.operator = self.method.compressor.on(self._owned())

    def _named(self, message: Message) -> Message:
        """The same with numbers of the whole table."""
        support, places = self.whole[self.process.rank], message.positions
        assert places is not None, "_check_names"
        counts = np.array([len(places)])
        frames = Frames(counts, counts * bits_per_index(support.sizes), message.frames.coding, announced=False)
        positions = self.rows[places // self.width] * self.width + places % self.width
        return Message(support, positions, message.values, frames, message.units)

    def estimate(self, sent: Sequence[Bytes]) -> torch.Tensor:
        messages = [self._read(rank, padded) for rank, padded in enumerate(sent)]
        rows = joined(self.served_rows, np.unique(np.concatenate([places // self.width for places, _ in messages])))
        self.server = relaid(self.server, self.served_rows, rows, self.width)
        self.served_rows = rows
        total = np.zeros(len(rows) * self.width, dtype=self.dtype)
        for places, values in messages:
            add_at(total, np.searchsorted(rows, places // self.width) * self.width + places % self.width, values)
        g = self.served(total).reshape(-1, self.width)
        moved = g.any(axis=1)
        return torch.sparse_coo_tensor(
            torch.from_numpy(rows[moved][None]),
            torch.from_numpy(g[moved]).view(-1, *self.shape[1:]),
            self.shape,
            check_invariants=False,
            is_coalesced=True,
        )

    def _read(self, rank: int, padded: Bytes) -> tuple[Integers, Floats]:
        """Which numbers a process sent, and what they are."""
        length = int(padded[: LENGTH.itemsize].view(LENGTH)[0])
        frame = padded[LENGTH.itemsize : LENGTH.itemsize + length]
        coding = self.method.compressor.coding
        message, beside = decode(frame, None, self.whole[rank], self.ctx, self.dtype, ONE_BIT, coding)
        self.heard(rank, beside)
        assert message.positions is not None, "every number comes with its index"
        return message.positions, message.values

    def save(self) -> Saved:
        return {**super().save(), "rows": self.rows, "served_rows": self.served_rows}

    def load(self, saved: Saved) -> None:
        super().load(saved)
        self.rows, self.served_rows = saved["rows"], saved["served_rows"]
        self.operator = self.method.compressor.on(self._owned())


def joined(rows: Integers, more: Integers) -> Integers:
    """The union of both, which are ascending.

    >>> joined(np.array([2, 5]), np.array([1, 5, 7])).tolist()
    [1, 2, 5, 7]
    """
    at = np.searchsorted(rows, more)
    new = np.ones(len(more), dtype=bool)
    inside = at < len(rows)
    new[inside] = rows[at[inside]] != more[inside]
    return np.insert(rows, at[new], more[new])


def relaid(memory: Any, old: Integers, new: Integers, width: int) -> Any:
    """A memory of `width` numbers for each of the old rows, on the new ones; what it had nothing for is zero.

    >>> relaid((np.array([1.0, 2.0, 3.0, 4.0]), None), np.array([2, 5]), np.array([2, 3, 5]), width=2)
    (array([1., 2., 0., 0., 3., 4.]), None)
    """
    if len(new) == len(old):
        return memory
    places = np.searchsorted(new, old)

    def moved(leaf: Floats) -> Floats:
        if len(leaf) != len(old) * width:
            return leaf
        out = np.zeros((len(new), width), dtype=leaf.dtype)
        out[places] = leaf.reshape(len(old), width)
        return out.ravel()

    return map_memory(moved, memory)
