"""A method is a few pure functions over *some* clients (a shard) and one over the server; all memory is in the states.

Round t: the server has x^t; clients compute their gradients there and send messages; the server turns the mean message
into a direction; x^{t+1} = x^t - gamma^t direction. Round 0 is `init`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

from errorfeedback.compressors.base import Agreed, Compressor, Message, Operator
from errorfeedback.core import Lifted, Model, Round
from errorfeedback.sparsity.support import Support


@dataclass(frozen=True)
class Method(ABC):
    """What clients and server do in a round. `State` and `ServerState` are the method's own affair."""

    compressor: Compressor
    requires: ClassVar[type[Compressor]] = Compressor  # type: ignore[type-abstract]
    """What kind of compressor the method is defined for."""

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

    @abstractmethod
    def init(self, grads: Lifted, compress: Operator, ctx: Round) -> tuple[Message, Any]:
        """Round 0 on the clients: the first upload and the clients' memory. `grads` is scratch: it may be overwritten."""

    @abstractmethod
    def client(self, state: Any, grads: Lifted, compress: Operator, ctx: Round) -> tuple[Message, Any]:
        """A later round on the clients; `state` may be updated in place, `grads` may be overwritten."""

    def agreed(self, compress: Operator, ctx: Round) -> Agreed:
        """What both sides know of the clients' message of a round before it is sent."""
        return compress.agreed(ctx)

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, Any]:
        """Round 0 on the server: direction and memory from the mean of the first upload (`mean` is scratch: copy it)."""
        g = mean.copy()
        return g, g

    @abstractmethod
    def server(self, state: Any, mean: Model, ctx: Round) -> tuple[Model, Any]:
        """A later round on the server: direction and memory, which may be updated in place."""

    def error(self, state: Any, grads: Lifted) -> Lifted | None:
        """g_i - grad f_i(x), for methods whose clients keep gradient estimates g_i (equation 12), else None."""
        return None

    def estimate(self, state: Any) -> Model | None:
        """(1/n) sum_i g_i, which the server keeps where clients keep gradient estimates, else None."""
        return None

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[Method]:
        """Instances for the conformance tests: one for every compressor that fits."""
        return [cls(compressor) for compressor in compressors if isinstance(compressor, cls.requires)]

    def __str__(self) -> str:
        shown = [f.name + "=" + repr(getattr(self, f.name)) for f in fields(self) if f.name != "compressor"]
        return f"{type(self).__name__}({', '.join([str(self.compressor), *shown])})"


class Memoryless(Method):
    """The direction is the mean message; nobody remembers anything."""

    def init(self, grads: Lifted, compress: Operator, ctx: Round) -> tuple[Message, None]:
        return self.client(None, grads, compress, ctx)

    def client(self, state: None, grads: Lifted, compress: Operator, ctx: Round) -> tuple[Message, None]:
        return compress(grads, ctx), None

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    def server(self, state: None, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None
