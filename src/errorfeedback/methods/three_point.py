"""Three point compressors (3PC; Richtarik, Sokolov, Gasanov, Fatkhullin, Li, Gorbunov 2022):

    x+ = x - gamma g,   g_i+ = C_{h, y}(z)  with  h = g_i,  y = grad f_i(x),  z = grad f_i(x+),   g = (1/n) sum_i g_i,

where C_{h, y} is any map with constants 0 < A <= 1 and B >= 0 such that, for all h, y and z,

    E||C_{h, y}(z) - z||^2 <= (1 - A)||h - y||^2 + B ||z - y||^2.

EF21 is h + C(z - h); every other member says what it is in its file. One rule has the step size of all of them
(`ef.ThreePointStep`). Clients begin with g_i^0 = grad f_i(x^0), a full upload that is counted.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Compressor, Contractive, Operator
from errorfeedback.core import Lifted, Model, PerClient, Round
from errorfeedback.keyed import DRAWS
from errorfeedback.methods.base import Method, Traffic, full_upload
from errorfeedback.methods.node import Node
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.coding import FULL
from errorfeedback.wire.message import KnownLayout, Message

Constants = tuple[PerClient, PerClient]
"""A_i and B_i."""
Memory = tuple[Lifted, Lifted]
"""g_i and the last gradient."""


@dataclass(frozen=True)
class ThreePoint(Method):
    """A member writes `change` and `constants`."""

    requires: ClassVar[type[Compressor]] = Contractive  # type: ignore[type-abstract]
    error_feedback: ClassVar[bool] = True
    memory: ClassVar[int] = 2

    @abstractmethod
    def constants(self, support: Support) -> Constants:
        """A_i and B_i of every client."""

    @abstractmethod
    def change(self, h: Lifted, y: Lifted, z: Lifted, compress: Operator, ctx: Round) -> Message:
        """C_{h, y}(z) - h, as it is sent; none of them may be overwritten. `compress` is that of `compressor`."""

    def alpha(self, support: Support) -> PerClient:
        """That of its compressor."""
        assert isinstance(self.compressor, Contractive), "it requires it"
        return self.compressor.alpha(support)

    def init(self, node: Node, ctx: Round) -> tuple[Message, Memory]:
        grads = node.gradients()
        return node.compress.everything(grads), (Lifted(grads.copy()), Lifted(grads.copy()))

    def client(self, state: Memory, node: Node, ctx: Round) -> tuple[Message, Memory]:
        g, last = state
        grads = node.gradients()
        message = self.change(g, last, grads, node.compress, ctx)
        message.add_to(g)
        last[:] = grads
        return message, state

    def known(self, compress: Operator, ctx: Round) -> KnownLayout:
        return KnownLayout(compress.whole, None) if ctx.t == 0 else self.known_change(compress, ctx)

    def known_change(self, compress: Operator, ctx: Round) -> KnownLayout:
        """What both sides know of the change of a round beforehand."""
        return compress.known(ctx) if self.announces else KnownLayout(compress.unannounced)

    def server(self, g: Model, c: Model, ctx: Round) -> tuple[Model, Model]:
        g += c
        return g, g

    def error(self, state: Memory, grads: Lifted) -> Lifted:
        return Lifted(state[0] - grads)

    def estimate(self, g: Model) -> Model:
        return g

    def traffic(self, support: Support) -> Traffic:
        return Traffic(full_upload(support), self.most_bits(support))

    def most_bits(self, support: Support) -> PerClient:
        """What every client sends in a round, at most where that depends on its gradients."""
        return self.compressor.message_bits(support)

    def first_error2(self, norms2: PerClient, support: Support) -> PerClient:
        return PerClient(np.zeros(support.n))


def markov(alpha: PerClient) -> Constants:
    """EF21's constants, theta and beta of Lemma 10: A = 1 - sqrt(1 - alpha), B = (1 - alpha)/A.

    >>> markov(np.array([0.75, 1.0]))
    (array([0.5, 1. ]), array([0.5, 0. ]))
    """
    A = 1 - np.sqrt(1 - alpha)
    return PerClient(A), PerClient((1 - alpha) / A)


def afterwards(ctx: Round) -> Round:
    """The key of a second compressor's draws in a round: they must not be those of the first."""
    return replace(ctx, t=ctx.t + DRAWS)


def check_full(**compressors: Compressor) -> None:
    """Raise where the sum of two messages would not be of numbers as they are."""
    for name, compressor in compressors.items():
        if compressor.coding != FULL:
            raise ValueError(
                f"{name} = {compressor} sends few bits, and the sum of two such messages has more; use TopK or RandK"
            )
