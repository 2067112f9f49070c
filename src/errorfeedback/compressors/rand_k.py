"""RandK: K entries chosen uniformly. Scaled by |J_i|/K it is unbiased with omega = |J_i|/K - 1; unscaled it is
contractive with alpha = K/|J_i|. The choice is keyed by (seed, round, client), so the server can repeat it and no
index crosses the wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Contractive, Operator, Sparsifier, Unbiased
from errorfeedback.core import Floats, Integers, Lifted, PerClient, Round
from errorfeedback.keyed import choose
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.frames import Frames
from errorfeedback.wire.message import KnownLayout, Message


@dataclass(frozen=True)
class RandK(Sparsifier, Unbiased):
    """Uniform sparsification, unbiased.

    >>> from errorfeedback.sparsity.support import full_support
    >>> RandK(1).omega(full_support(2, 5))
    array([4., 4.])
    """

    def omega(self, support: Support) -> PerClient:
        return PerClient(1.0 / self.share(support) - 1.0)

    @property
    def independent(self) -> bool:
        return True

    def contractive(self) -> ContractiveRandK:
        """C/(1 + omega): the same choice without the scaling."""
        return ContractiveRandK(self.k)

    def on(self, support: Support) -> Operator:
        levels = self.levels(support)
        return _Choice(support, levels, support.sizes / levels, self.frames(support))

    @classmethod
    def examples(cls) -> Sequence[RandK]:
        return [cls(1), cls(2)]


@dataclass(frozen=True)
class ContractiveRandK(Sparsifier, Contractive):
    """Uniform sparsification, contractive: RandK without its scaling.

    >>> from errorfeedback.sparsity.support import full_support
    >>> RandK(1).contractive().alpha(full_support(2, 5))
    array([0.2, 0.2])
    """

    deterministic: ClassVar[bool] = False

    def alpha(self, support: Support) -> PerClient:
        return self.share(support)

    def on(self, support: Support) -> Operator:
        return _Choice(support, self.levels(support), np.ones(support.n), self.frames(support))

    @classmethod
    def examples(cls) -> Sequence[ContractiveRandK]:
        return [cls(2)]


class _Choice(Operator):
    def __init__(self, support: Support, levels: Integers, scale: Floats, frames: Frames) -> None:
        super().__init__(support, frames)
        self.ends = np.concatenate([[0], np.cumsum(levels)])
        self.positions = np.empty(self.ends[-1], dtype=np.int64)
        self.scale = np.repeat(scale, levels)

    def __call__(self, u: Lifted, ctx: Round) -> Message:
        self._draw(ctx)
        values = (u[self.positions] * self.scale).astype(u.dtype, copy=False)
        return Message(self.support, self.positions, values, self.frames)

    def known(self, ctx: Round) -> KnownLayout:
        self._draw(ctx)
        return KnownLayout(self.frames, self.positions)

    def _draw(self, ctx: Round) -> None:
        choose(ctx.seed, ctx.t, self.support.first, self.support.indptr, self.ends, self.positions)
