"""Local steps, compressed, with the error fed back, as CocktailSGD does (Wang et al. 2023; earlier Qsparse-local-SGD of Basu
et al. 2019):

    u_i = e_i + (x - w_i)/(K rate),   v_i = C(u_i),   e_i+ = u_i - v_i,   x+ = x - gamma (1/n) sum_i v_i,

w_i after K gradient steps from x. Its cocktail of sparse entries in few bits is `Rounded(TopK(k), PowersOfTwo(4))`; theirs
also draws the entries that TopK chooses among, to save time, and is one round late. gamma = K rate is plain averaging. Its
server compresses too: `Compressed`. No step size of it has a theorem here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Compressor, Contractive
from errorfeedback.core import Lifted, Model, Round
from errorfeedback.methods.local_steps import FixedSteps
from errorfeedback.methods.node import Node
from errorfeedback.wire.message import Message


@dataclass(frozen=True)
class CocktailSGD(FixedSteps):
    """Local steps with error feedback.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> method = ef.CocktailSGD(ef.Rounded(ef.TopK(1), ef.PowersOfTwo(4)), rate=0.01)
    >>> run = ef.solve(problem, method, ef.Averaging(), rounds=400, every=400)
    >>> bool(run.history["f"][-1] < 0.5 * run.history["f"][0])
    True
    """

    requires: ClassVar[type[Compressor]] = Contractive  # type: ignore[type-abstract]
    memory: ClassVar[int] = 1

    def init(self, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        return self.client(Lifted(np.zeros(node.support.size, dtype=node.problem.dtype)), node, ctx)

    def client(self, e: Lifted, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        e += self.walk(node, ctx, self.steps) / self.unit
        v = node.compress(e, ctx)
        return v, v.take_from(e)

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    def server(self, state: None, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[CocktailSGD]:
        fitting = [compressor for compressor in compressors if isinstance(compressor, cls.requires)]
        return [cls(fitting[-1], steps=3, rate=0.01)]
