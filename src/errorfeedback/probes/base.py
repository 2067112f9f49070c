"""A probe is one number (or a few) that a rule asks every client for in a round, beyond the message: its bits, its client
side, and what the server makes of the answers. What crosses the wire is counted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from errorfeedback.core import Floats, Integers, Model, Round
from errorfeedback.methods.node import Node
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.truncated import truncated


@dataclass(frozen=True, eq=False)
class Hearing:
    """What the server knows beside the answers."""

    n: int
    known_slope: float
    """<(1/n) sum_i g_i, x - x_last>; 0 where clients keep no estimates, or nothing has moved."""
    penalty: Callable[[], float]
    """R(x) of the proximal term."""
    true_error2: Callable[[], float]
    """||g - grad f(x)||^2, which only a simulation can know."""


@dataclass(frozen=True)
class Probe(ABC):
    """Configuration only; clients keep a probe's memory by its class."""

    of_new_memory: ClassVar[bool] = False
    """It looks at the clients' memory after this round's update, and not before."""
    wants_values: ClassVar[bool] = False
    """It looks at f_i: clients compute it in the pass of their gradients."""
    spares_absent: ClassVar[bool] = False
    """A client that is away counts as having told the mean of the others, or what follows from its g_i: there is a meaning
    in that (`engines.believing`)."""

    @abstractmethod
    def widths(self, value_bits: int) -> tuple[int, ...]:
        """Bits of each number, leading ones of a float64, where a value of the run has that many."""

    @abstractmethod
    def tell(self, memory: Any, node: Node, ctx: Round) -> tuple[Floats, Any]:
        """(n, numbers) on the clients, and their memory for the next time."""

    def recalled(self, support: Support, x: Model) -> Any:
        """The clients' memory after they were asked at x, where a probe `spares_absent`."""
        return None

    @abstractmethod
    def hear(self, numbers: Floats, hearing: Hearing) -> Any:
        """What the numbers of all clients mean."""


Probes = tuple[Probe, ...]


@lru_cache
def widths_of(probes: Probes, value_bits: int) -> Integers:
    """Bits of every number that a client tells, in order."""
    return np.array([width for probe in probes for width in probe.widths(value_bits)], dtype=np.int64)


def answers_of(probes: Probes, telemetry: Floats | None, value_bits: int, hearing: Hearing) -> dict[type[Probe], Any]:
    """What the probes heard."""
    answers: dict[type[Probe], Any] = {}
    at = 0
    for probe in probes:
        length = len(probe.widths(value_bits))
        numbers = np.empty((0, 0)) if telemetry is None else telemetry[:, at : at + length]
        answers[type(probe)] = probe.hear(numbers, hearing)
        at += length
    return answers


def column_of(probes: Probes, kind: type[Probe], value_bits: int) -> int | None:
    """Where the first number of a probe of this kind is among those that a client tells; None: it is not asked for."""
    at = 0
    for probe in probes:
        if type(probe) is kind:
            return at
        at += len(probe.widths(value_bits))
    return None


def cut(numbers: Floats, widths: Sequence[int]) -> Floats:
    """(n, numbers): each column rounded to its bits, as it will cross the wire."""
    if len(set(widths)) == 1:
        return truncated(numbers, widths[0])
    return np.column_stack([truncated(column, width) for column, width in zip(numbers.T, widths, strict=True)])
