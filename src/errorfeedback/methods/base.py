"""A method is a few pure functions over *some* clients (a shard) and one over the server; all memory is in the states.

Round t: the clients stand at x^t and may ask their node for gradients there or elsewhere; they send messages; the server
turns the mean message into an estimate g of the gradient. What is made of g is not the method's affair (`directions`,
`stepsizes`, `downlinks`). Round 0 is `init`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from errorfeedback.compressors.base import Compressor, Operator
from errorfeedback.core import VALUE_BITS, Lifted, Model, PerClient, Round
from errorfeedback.methods.node import Node
from errorfeedback.problems.base import Problem
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.frames import frame_bits
from errorfeedback.wire.message import KnownLayout, Message


class Traffic(NamedTuple):
    """Bits up of every client, on average where it varies."""

    first: PerClient
    """Before the rounds that a theorem counts."""
    round: PerClient
    """In every round that it counts."""


@dataclass(frozen=True)
class Method(ABC):
    """What clients and server do in a round. `State` and `ServerState` are the method's own affair."""

    compressor: Compressor
    """What a client sends of a vector."""
    requires: ClassVar[type[Compressor]] = Compressor  # type: ignore[type-abstract]
    """What kind of compressor the method is defined for."""
    in_expectation: ClassVar[bool] = False
    """Its theorems speak of averages over its own random choices."""
    error_feedback: ClassVar[bool] = False
    """Clients keep gradient estimates and send what is missing from them."""
    rests: ClassVar[bool] = False
    """A client that does not answer in a round does nothing in it, so that it need not know x."""
    announces: ClassVar[bool] = True
    """Both sides know before a round how many values every client sends in it."""
    mirrors: ClassVar[bool] = False
    """What a client remembers is what its messages add up to (`mirrored`), so that whoever has heard them knows it."""
    memory: ClassVar[int] = 0
    """Numbers that a client keeps per feature between rounds."""
    adds_penalty: ClassVar[bool] = False
    """Its estimate leads to the minimum of f and the server's penalty: no proximal step follows it."""
    reads_steps: ClassVar[bool] = False
    """Its clients find the estimate g again in how x has moved, x - x+ = gamma g: gamma must be the same in every round, and
    nothing else may move x."""

    def __post_init__(self) -> None:
        if not isinstance(self.compressor, self.requires):
            raise ValueError(
                f"{type(self).__name__} needs a compressor that is {self.requires.__name__.lower()}, "
                f"and {self.compressor} is not (RandK has .contractive())"
            )

    def bind(self, support: Support) -> Self:
        """The method with everything filled in that depends on all clients."""
        self.compressor.check(support)
        return self

    def suited(self, problem: Problem) -> Self:
        """The method with everything filled in that depends on the problem."""
        return self

    def check_penalty(self, prox: ElasticNet | None) -> None:  # noqa: B027  (most methods know nothing of it)
        """Raise where the method does not know what to do with the server's penalty."""

    def knowing(self, gamma: float | None) -> Self:
        """The method whose clients know the step size of all rounds; None: it varies."""
        return self

    def tuned(self, gamma: float) -> tuple[Self, float]:
        """The method and the server's step size where gamma is the number that is tuned: the server's step, or what the
        clients have in its place."""
        return self, gamma

    @property
    def turn(self) -> int:
        """x^t is an iterate where t is a multiple of it; in between clients stand where the server shows them something."""
        return 1

    def lacking(self, problem: Problem) -> str:
        """What the method asks of a problem and this one does not have; empty where it has all."""
        return ""

    @abstractmethod
    def init(self, node: Node, ctx: Round) -> tuple[Message, Any]:
        """Round 0 on the clients: the first upload and the clients' memory."""

    @abstractmethod
    def client(self, state: Any, node: Node, ctx: Round) -> tuple[Message, Any]:
        """A later round on the clients; `state` may be updated in place."""

    def known(self, compress: Operator, ctx: Round) -> KnownLayout:
        """What both sides know of the clients' message of a round before it is sent."""
        return compress.known(ctx)

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, Any]:
        """Round 0 on the server: the estimate and memory from the mean of the first upload (`mean` is scratch: copy it)."""
        g = mean.copy()
        return g, g

    @abstractmethod
    def server(self, state: Any, mean: Model, ctx: Round) -> tuple[Model, Any]:
        """A later round on the server: the estimate and memory, which may be updated in place."""

    def error(self, state: Any, grads: Lifted) -> Lifted | None:
        """g_i - grad f_i(x), for methods whose clients keep gradient estimates g_i (equation 12), else None."""
        return None

    def estimate(self, state: Any) -> Model | None:
        """(1/n) sum_i g_i, which the server keeps where clients keep gradient estimates, else None."""
        return None

    def mirrored(self, state: Any, message: Message, ctx: Round) -> Any:
        """The clients' memory after they have sent this message, which may be updated in place; where it `mirrors`."""
        raise ValueError(f"what clients of {self} remember cannot be told from their messages")

    def stands(self, t: int) -> bool:
        """Whether the estimate is sure to be zero after round t, so that x stays and nobody has to be told where it is."""
        return False

    @property
    def exact_from(self) -> int:
        """The round from which on what is sent exactly carries no error."""
        return 0

    @property
    def unproved(self) -> str:
        """Why no theorem speaks about a run of it; empty where one may."""
        return ""

    def traffic(self, support: Support) -> Traffic:
        """What it sends, in frames of float64 values."""
        message = self.compressor.message_bits(support)
        return Traffic(PerClient(np.zeros(support.n)), message)

    def first_error2(self, norms2: PerClient, support: Support) -> PerClient:
        """A bound on ||g_i - grad f_i(x^0)||^2 after round 0, from ||grad f_i(x^0)||^2."""
        return norms2

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[Method]:
        """Instances for the conformance tests: one for every compressor that fits."""
        return [cls(compressor) for compressor in compressors if isinstance(compressor, cls.requires)]

    def __str__(self) -> str:
        shown = [f"{f.name}={getattr(self, f.name)!s}" for f in fields(self) if f.name != "compressor"]
        return f"{type(self).__name__}({', '.join([str(self.compressor), *shown])})"


def full_upload(support: Support) -> PerClient:
    """Bits of every client's whole gradient."""
    return PerClient(frame_bits(support.sizes, np.zeros_like(support.sizes), VALUE_BITS * support.sizes))


class Memoryless(Method):
    """The estimate is the mean message; nobody remembers anything."""

    rests: ClassVar[bool] = True

    def init(self, node: Node, ctx: Round) -> tuple[Message, None]:
        return self.client(None, node, ctx)

    def client(self, state: None, node: Node, ctx: Round) -> tuple[Message, None]:
        return node.compress(node.gradients(), ctx), None

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    def server(self, state: None, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None
