"""No compression: alpha = 1, omega = 0."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from errorfeedback.compressors.base import Contractive, Operator, Unbiased
from errorfeedback.core import Lifted, PerClient, Round
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import KnownLayout, Message


@dataclass(frozen=True)
class Identity(Contractive, Unbiased):
    """Every client sends all of its |J_i| values."""

    def alpha(self, support: Support) -> PerClient:
        return PerClient(np.ones(support.n))

    def omega(self, support: Support) -> PerClient:
        return PerClient(np.zeros(support.n))

    @property
    def independent(self) -> bool:
        return True

    def entries(self, support: Support) -> PerClient:
        return PerClient(support.sizes.astype(np.float64))

    def on(self, support: Support) -> Operator:
        return _Everything(support, self.frames(support))

    @classmethod
    def examples(cls) -> Sequence[Identity]:
        return [cls()]


class _Everything(Operator):
    def __call__(self, u: Lifted, ctx: Round) -> Message:
        return self.everything(u)

    def known(self, ctx: Round) -> KnownLayout:
        return KnownLayout(self.whole, None)
