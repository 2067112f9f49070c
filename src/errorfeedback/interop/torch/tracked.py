"""One parameter of a model under a method: this process is one of its clients, and every process is its server.

Client i is process i, J_i are the parameter's numbers (`dense_parameter`) or the rows of it that the process has touched
(`table_parameter`), and the oracle is the backward pass: its gradient is over the minibatch that the process was given. All
processes get the messages of all, in order, so that all have the same estimate g, bit for bit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch

from errorfeedback.compressors.base import Operator
from errorfeedback.core import Floats, Lifted, Model, PerClient, Point, Round, Sample
from errorfeedback.methods.base import Method
from errorfeedback.methods.node import Node
from errorfeedback.problems.base import Problem
from errorfeedback.wire.bits import Bytes
from errorfeedback.wire.coding import Patterns
from errorfeedback.wire.message import Message

Saved: TypeAlias = dict[str, Any]
"""What a state_dict has of a parameter."""
ONE_BIT = np.ones(1, dtype=np.int64)
"""Beside its values a message says one thing: 1 where the gradient was not finite."""


@dataclass(frozen=True)
class ProcessRank:
    """Which process this is, of how many."""

    rank: int
    ranks: int
    seed: int


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class BackwardPass(Problem):
    """f_i of this process, where the model stands: its gradient is what the backward pass left."""

    left: Lifted

    def gradients(self, at: Point, out: Lifted, *, rows: Sample | None = None, values: PerClient | None = None) -> None:
        """Over the rows of the minibatch, whichever sample is asked for."""
        out[:] = self.left

    def values(self, at: Point) -> PerClient:
        raise NotImplementedError("a communication hook is handed gradients; it does not know the loss")

    def shard(self, lo: int, hi: int) -> BackwardPass:
        return self


class Tracked(ABC):
    """`t` counts the steps in which the parameter was synchronised; `client` and `server` are the method's memory."""

    kind: ClassVar[str]
    """What a saved state calls it."""

    def __init__(self, name: str, parameter: torch.Tensor, method: Method, process: ProcessRank) -> None:
        self.name, self.method, self.process = name, method, process
        self.dtype = np.dtype(np.float64 if parameter.dtype == torch.float64 else np.float32)
        self.shape, self.size = tuple(parameter.shape), parameter.numel()
        self.t = 0
        self.client: Any = None
        self.server: Any = None

    @property
    def ctx(self) -> Round:
        return Round(self.t, self.process.seed)

    @abstractmethod
    def lengths(self) -> list[int]:
        """Bytes of every process's message in this step."""

    @abstractmethod
    def message(self, gradient: torch.Tensor) -> Bytes:
        """What this process sends for its gradient; its memory moves on."""

    @abstractmethod
    def estimate(self, sent: Sequence[Bytes]) -> torch.Tensor:
        """The method's estimate of the mean gradient, from the messages of all processes in order; ends the step."""

    def spoken(self, left: Lifted, operator: Operator) -> tuple[Message, Patterns]:
        """The method's message, and what is said beside it. Memory stays as it was where the gradient is not finite: the
        message is then that of a zero gradient."""
        finite = bool(np.isfinite(left).all())
        support, columns = operator.support, operator.support.indices
        oracle = left if finite else Lifted(np.zeros_like(left))
        problem = BackwardPass(support=support, dtype=self.dtype, columns=columns, width=support.d, left=oracle)
        node = Node(problem, operator, Lifted(np.empty_like(left)))
        if self.t == 0:
            message, memory = self.method.init(node, self.ctx)
        else:
            message, memory = self.method.client(self.client if finite else deepcopy(self.client), node, self.ctx)
        if finite:
            self.client = memory
        return message, np.array([[not finite]], dtype=np.uint64)

    def heard(self, rank: int, beside: Patterns) -> None:
        """Raise, on every process alike, where a gradient was not finite."""
        if beside[0, 0]:
            raise ValueError(
                f"the gradient of {self.name!r} on process {rank} is not finite (step {self.t}); no method goes on from "
                "there: lower the learning rate or mend the loss, and start again from the last saved state"
            )

    def served(self, total: Floats) -> Model:
        """g, from the sum of what all sent."""
        total /= self.process.ranks
        mean = Model(total)
        g, self.server = (
            self.method.server_init(mean, self.ctx) if self.t == 0 else self.method.server(self.server, mean, self.ctx)
        )
        self.t += 1
        return g

    def save(self) -> Saved:
        """All that later steps depend on."""
        return {
            "kind": self.kind,
            "method": type(self.method).__name__,
            "shape": self.shape,
            "step": self.t,
            "client": self.client,
            "server": self.server,
        }

    def check(self, saved: Saved) -> None:
        """Raise where it is not the state of this parameter under this method."""
        mine = {"kind": self.kind, "method": type(self.method).__name__, "shape": self.shape}
        for key, value in mine.items():
            if saved[key] != value:
                raise ValueError(f"{key} of {self.name!r} is {saved[key]} in the state and {value} here; they must be equal")

    def load(self, saved: Saved) -> None:
        """Go on from there."""
        self.t, self.client, self.server = saved["step"], saved["client"], saved["server"]
