"""EF21 (Algorithm 1; Richtarik, Sokolov, Fatkhullin 2021):

    x^{t+1} = x^t - gamma g^t,   g_i^{t+1} = g_i^t + C(grad f_i(x^{t+1}) - g_i^t),   g^{t+1} = (1/n) sum_i g_i^{t+1}.

Starts: "zero" is g_i^0 = 0, nothing is sent (so x^1 = x^0); "gradient" is g_i^0 = grad f_i(x^0), a full upload;
"authors" is what the published curves did: x^1 = x^0 - gamma grad f(x^0), and g_i = 0 from there on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Agreed, Compressor, Contractive, Message, Operator
from errorfeedback.core import Lifted, Model, Round
from errorfeedback.methods.base import Method

STARTS: dict[str, Callable[[Lifted, Operator], tuple[Message, Lifted]]] = {
    "zero": lambda grads, compress: (compress.nothing(grads), np.zeros_like(grads)),
    "gradient": lambda grads, compress: (compress.everything(grads), grads.copy()),
    "authors": lambda grads, compress: (compress.everything(grads), np.zeros_like(grads)),
}


@dataclass(frozen=True)
class EF21(Method):
    """Clients send what is missing from their gradient estimates g_i."""

    requires: ClassVar[type[Compressor]] = Contractive  # type: ignore[type-abstract]
    start: str = "zero"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start not in STARTS:
            raise ValueError(f"start = {self.start!r}; it must be one of {', '.join(STARTS)}")

    def init(self, grads: Lifted, compress: Operator, ctx: Round) -> tuple[Message, Lifted]:
        return STARTS[self.start](grads, compress)

    def client(self, g: Lifted, grads: Lifted, compress: Operator, ctx: Round) -> tuple[Message, Lifted]:
        return compress.follow(g, grads, ctx), g

    def agreed(self, compress: Operator, ctx: Round) -> Agreed:
        if ctx.t:
            return compress.agreed(ctx)
        return Agreed(compress.empty) if self.start == "zero" else Agreed(compress.whole, None)

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, Model]:
        return (mean, np.zeros_like(mean)) if self.start == "authors" else super().server_init(mean, ctx)

    def server(self, g: Model, c: Model, ctx: Round) -> tuple[Model, Model]:
        g += c
        return g, g

    def error(self, g: Lifted, grads: Lifted) -> Lifted:
        return g - grads

    def estimate(self, g: Model) -> Model:
        return g

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[EF21]:
        return [cls(c, start) for c in compressors if isinstance(c, cls.requires) for start in STARTS]
