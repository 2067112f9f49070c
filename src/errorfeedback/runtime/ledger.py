"""The books of a run: every bit that crosses the wire, up and down, counted where it happens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from errorfeedback.clients.bending import MISSING_BITS
from errorfeedback.core import VALUE_BITS
from errorfeedback.downlinks.base import Broadcast
from errorfeedback.problems.base import Problem
from errorfeedback.sparsity.support import Support
from errorfeedback.stepsizes.base import COMMAND_BITS
from errorfeedback.wire.coding import FULL
from errorfeedback.wire.feature_lists import list_bits
from errorfeedback.wire.frames import LOSS_FRAME_BITS, Frames, frame_bits
from errorfeedback.wire.message import Message


def ownership_bits(problem: Problem) -> int:
    """Every client says once which of the columns it owns (`wire.feature_lists`)."""
    support, q = problem.support.by_feature, problem.support.outputs
    listed = list_bits(support.indptr, (problem.columns[::q] // q)[support.indices], problem.width // q)
    nothing = np.zeros(support.n, dtype=np.int64)
    return int(frame_bits(nothing, listed, nothing, announced=False).sum())


@dataclass(eq=False)
class Ledger:
    """Totals over all clients. `payload`: values, indices and telemetry, without heads and padding: what theory counts.
    `authors`: the uplink as the paper's plots count it. `curvature`: the part of the uplink that is Hessians."""

    support: Support
    value_bits: int
    commands: bool
    uplink: int = 0
    downlink: int = 0
    payload: int = 0
    authors: int = 0
    curvature: int = 0
    tellers: int = 0
    """Clients that told their Hessians when they were last asked."""

    def __post_init__(self) -> None:
        command = COMMAND_BITS * self.commands
        self._nothing = Frames(*np.zeros((2, self.support.n), dtype=np.int64)).cost(command, self.value_bits).bits
        self._whole = Broadcast(np.empty(0)).frames(self.support).cost(command, self.value_bits).bits

    def prepared(self, up: int, down: int, ownership: int) -> None:
        """Before round 0: what problem and rule had to know, and who owns which feature."""
        self.uplink += up + ownership
        self.payload += up
        self.downlink += down

    def exchanged(
        self, broadcast: Broadcast | None, messages: list[Message], telemetry_bits: int, first: bool, rests: bool
    ) -> None:
        """A round. Up: the shards' messages, with `telemetry_bits` of telemetry from each client. Down: to those who take
        part; to everybody in round 0, where all have to tell something, and with methods whose clients never rest."""
        for message in messages:
            if not message.presence.there:
                continue
            bits, payload, authors = message.frames.cost(telemetry_bits, self.value_bits)
            self.uplink += bits
            self.payload += payload
            if not first:
                self.authors += authors
        absent = messages[0].frames.answers is not None and rests and not (first or telemetry_bits)
        if not all(message.presence.informed for message in messages):
            self.downlink += sum(self._down_to(broadcast, each, absent) for each in messages if each.presence.informed)
            return
        if broadcast is None:
            self.downlink += self._nothing
            return
        if not (absent or broadcast.features is not None or broadcast.coding is not FULL or broadcast.numbers):
            self.downlink += self._whole  # the same in every round
            return
        frames = broadcast.frames(self.support, _answers(messages) if absent else None)
        numbers = COMMAND_BITS * self.commands + VALUE_BITS * len(broadcast.numbers)
        self.downlink += frames.cost(numbers, self.value_bits).bits

    def _down_to(self, broadcast: Broadcast | None, message: Message, absent: bool) -> int:
        """Down to the clients of one shard."""
        command, support = COMMAND_BITS * self.commands, message.support
        if broadcast is None:
            return Frames(*np.zeros((2, support.n), dtype=np.int64)).cost(command, self.value_bits).bits
        frames = broadcast.frames(support, message.frames.answers if absent else None)
        return frames.cost(command + VALUE_BITS * len(broadcast.numbers), self.value_bits).bits

    def bent(self, messages: list[Message]) -> None:
        """Up: the shards' messages of curvature."""
        self.tellers = sum(message.support.n for message in messages)
        for message in messages:
            bits, payload, _ = message.frames.cost(MISSING_BITS, VALUE_BITS)
            self.uplink += bits
            self.curvature += bits
            self.payload += payload

    def compared(self) -> None:
        """The exact losses at two points, at the end."""
        self.uplink += 2 * LOSS_FRAME_BITS * self.support.n
        self.payload += 2 * VALUE_BITS * self.support.n

    @property
    def row(self) -> dict[str, float]:
        """For the history."""
        return {
            "uplink_bits": self.uplink,
            "payload_bits": self.payload,
            "downlink_bits": self.downlink,
            "authors_bits": self.authors,
            "curvature_bits": self.curvature,
            "tellers": self.tellers,
        }

    @property
    def totals(self) -> tuple[int, int, int, int, int, int]:
        """For a snapshot."""
        return self.uplink, self.downlink, self.payload, self.authors, self.curvature, self.tellers

    @totals.setter
    def totals(self, totals: tuple[int, int, int, int, int, int]) -> None:
        self.uplink, self.downlink, self.payload, self.authors, self.curvature, self.tellers = totals


def _answers(messages: list[Message]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.concatenate([message.frames.answers for message in messages if message.frames.answers is not None])
