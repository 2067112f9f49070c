"""EF21 (Algorithm 1; Richtarik, Sokolov, Fatkhullin 2021):

    x^{t+1} = x^t - gamma g^t,   g_i^{t+1} = g_i^t + C(grad f_i(x^{t+1}) - g_i^t),   g^{t+1} = (1/n) sum_i g_i^{t+1}.

Starts: "zero" is g_i^0 = 0, nothing is sent (so x^1 = x^0); "compressed" is g_i^0 = C(grad f_i(x^0)), the same without the
round in which x stands; "gradient" is g_i^0 = grad f_i(x^0), a full upload; "authors" is what the published curves did:
x^1 = x^0 - gamma grad f(x^0), and g_i = 0 from there on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Compressor, Contractive, Operator
from errorfeedback.core import Lifted, Model, PerClient, Round
from errorfeedback.methods.base import Method, Traffic, full_upload
from errorfeedback.methods.node import Node
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import KnownLayout, Message


@dataclass(frozen=True)
class Start:
    """What happens in round 0."""

    name: str
    uploads: bool
    """Every client sends something."""
    whole: bool = False
    """It is the gradient itself, and not C of it."""
    remembers: bool = True
    """g_i^0 is what was sent (0 where nothing was), and not 0 whatever was sent."""

    def __str__(self) -> str:
        return self.name


STARTS = {
    start.name: start
    for start in (
        Start("zero", uploads=False),
        Start("compressed", uploads=True),
        Start("gradient", uploads=True, whole=True),
        Start("authors", uploads=True, whole=True, remembers=False),
    )
}


@dataclass(frozen=True)
class EF21(Method):
    """Clients send what is missing from their gradient estimates g_i. `start`: one of STARTS, or its name."""

    requires: ClassVar[type[Compressor]] = Contractive  # type: ignore[type-abstract]
    memory: ClassVar[int] = 1
    error_feedback: ClassVar[bool] = True
    rests: ClassVar[bool] = True
    mirrors: ClassVar[bool] = True
    start: Start | str = STARTS["zero"]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.start, Start):
            if self.start not in STARTS:
                raise ValueError(f"start = {self.start!r}; it must be one of {', '.join(STARTS)}")
            object.__setattr__(self, "start", STARTS[self.start])

    @property
    def first(self) -> Start:
        """How it begins."""
        assert isinstance(self.start, Start), "a name was replaced by what it stands for"
        return self.start

    def init(self, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        zero = Lifted(np.zeros(node.support.size, dtype=node.problem.dtype))
        if not self.first.uploads:
            return node.compress.nothing(zero), zero
        if not self.first.whole:
            return self.client(zero, node, ctx)
        grads = node.gradients()
        return node.compress.everything(grads), Lifted(grads.copy()) if self.first.remembers else zero

    def client(self, g: Lifted, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        return node.compress.track(g, node.gradients(), ctx), g

    def known(self, compress: Operator, ctx: Round) -> KnownLayout:
        if ctx.t == 0 and not self.first.uploads:
            return KnownLayout(compress.empty)
        return KnownLayout(compress.whole, None) if ctx.t == 0 and self.first.whole else compress.known(ctx)

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, Model]:
        return super().server_init(mean, ctx) if self.first.remembers else (mean, np.zeros_like(mean))

    def server(self, g: Model, c: Model, ctx: Round) -> tuple[Model, Model]:
        g += c
        return g, g

    def error(self, g: Lifted, grads: Lifted) -> Lifted:
        return Lifted(g - grads)

    def mirrored(self, g: Lifted, message: Message, ctx: Round) -> Lifted:
        if ctx.t:
            return message.add_to(g)
        if self.first.whole and self.first.remembers:
            return Lifted(message.values.copy())
        zero = Lifted(np.zeros_like(g))
        return message.add_to(zero) if self.first.remembers else zero

    def estimate(self, g: Model) -> Model:
        return g

    def stands(self, t: int) -> bool:
        return t == 0 and not self.first.uploads

    @property
    def exact_from(self) -> int:
        return 0 if self.first.uploads else 1

    @property
    def unproved(self) -> str:
        return "" if self.first.remembers else "the authors' start is not Algorithm 1's"

    def traffic(self, support: Support) -> Traffic:
        message = self.compressor.message_bits(support)
        first = full_upload(support) if self.first.whole else message
        return Traffic(PerClient(first * self.first.uploads), message)

    def first_error2(self, norms2: PerClient, support: Support) -> PerClient:
        if not (self.first.uploads and self.first.remembers):
            return norms2
        assert isinstance(self.compressor, Contractive), "it requires it"
        alpha = 1.0 if self.first.whole else self.compressor.alpha(support)
        return PerClient((1 - alpha) * norms2)

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[EF21]:
        return [cls(c, start) for c in compressors if isinstance(c, cls.requires) for start in STARTS]
