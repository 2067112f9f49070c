"""EControl (Gao, Islamov, Stich 2023): EF21's estimate, and a share of EF14's error in what is sent,

    c_i = C(eta e_i + grad f_i(x) - h_i),   h_i+ = h_i + c_i,   e_i+ = e_i + grad f_i(x) - h_i+,
    x+ = x - (gamma/n) sum_i h_i+,

with gradients over all rows or over a minibatch. At eta = 0 it is EF21. They begin with h_i a gradient; here h_i = 0, so
that nothing but C of something is ever sent. Their theorems take a fixed share of alpha for eta and a gamma of the order
alpha/L; `EControlStep` has a theorem of our own, for every eta < 2 (1 - s)/(1 + s), s = sqrt(1 - alpha).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Compressor, Contractive
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import Lifted, Model, Round
from errorfeedback.methods.base import Traffic
from errorfeedback.methods.minibatched import Minibatched
from errorfeedback.methods.node import Node
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import Message

Memory = tuple[Lifted, Lifted]
"""h_i and e_i."""


@dataclass(frozen=True)
class EControl(Minibatched):
    """`eta` in [0, 1]: how much of the accumulated error is fed back in a round. None: half of what `EControlStep`'s theorem
    allows, (1 - s)/(1 + s) with s = sqrt(1 - alpha).

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> run = ef.solve(problem, ef.EControl(ef.TopK(1)), ef.EControlStep(), rounds=2000, every=2000)
    >>> bool(run.history["grad_norm2"][-1] < 1e-2 * run.history["grad_norm2"][0])
    True
    """

    requires: ClassVar[type[Compressor]] = Contractive  # type: ignore[type-abstract]
    error_feedback: ClassVar[bool] = True
    memory: ClassVar[int] = 2
    eta: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta is not None and not 0 <= self.eta <= 1:
            raise ValueError(f"eta = {self.eta}; the share of the error that is fed back must be in [0, 1]")

    def bind(self, support: Support) -> EControl:
        self.compressor.check(support)
        assert isinstance(self.compressor, Contractive), "it requires it"
        s = sqrt(1 - float(self.compressor.alpha(support).min()))
        return self if self.eta is not None else replace(self, eta=(1 - s) / (1 + s))

    @property
    def feedback(self) -> float:
        """`eta`, filled in."""
        assert self.eta is not None, "bind() fills eta in"
        return self.eta

    def init(self, node: Node, ctx: Round) -> tuple[Message, Memory]:
        h, e = np.zeros((2, node.support.size), dtype=node.problem.dtype)
        return self.client((Lifted(h), Lifted(e)), node, ctx)

    def client(self, state: Memory, node: Node, ctx: Round) -> tuple[Message, Memory]:
        h, e = state
        grads = node.gradients(rows=self.rows(ctx))
        message = node.compress(Lifted(self.feedback * e + grads - h), ctx)
        message.add_to(h)
        e += grads
        e -= h
        return message, state

    def server(self, h: Model, c: Model, ctx: Round) -> tuple[Model, Model]:
        h += c
        return h, h

    def error(self, state: Memory, grads: Lifted) -> Lifted:
        return Lifted(state[0] - grads)

    def estimate(self, h: Model) -> Model:
        return h

    def traffic(self, support: Support) -> Traffic:
        message = self.compressor.message_bits(support)
        return Traffic(message, message)

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[EControl]:
        return [cls(TopK(1), batch=2, eta=0.02)]
