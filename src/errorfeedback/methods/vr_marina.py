"""VR-MARINA (Gorbunov et al. 2021, Algorithm 2): MARINA whose compressed differences are over minibatches,

    g+ = grad f(x+)  with probability p,   else   g + (1/n) sum_i C_i(grad f_i(x+; batch) - grad f_i(x; batch)),

the same rows at both points. Coin and rows are keyed: no wire carries them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from errorfeedback.compressors.base import Compressor
from errorfeedback.core import Lifted, Point, Round, Sample
from errorfeedback.methods.node import Node
from errorfeedback.methods.synchronising import Synchronising
from errorfeedback.wire.message import Message


@dataclass(frozen=True)
class VRMARINA(Synchronising):
    """`batch` rows of every client between two full uploads. p: for the fewest gradients, about the batch's share of all.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> run = ef.solve(problem, ef.VRMARINA(ef.RandK(1), p=0.3), ef.VRMarinaStep(), rounds=2000, every=2000)
    >>> bool(run.history["grad_norm2"][-1] < 1e-2 * run.history["grad_norm2"][0])
    True
    """

    batch: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        Sample(self.batch, Round(0, 0))  # which says what is wrong with it

    def init(self, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        return node.compress.everything(node.gradients()), Lifted(node.own().copy())

    def client(self, x: Lifted, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        if self.synchronises(ctx):
            message = node.compress.everything(node.gradients())
        else:
            rows = Sample(self.batch, ctx)
            last = node.gradients(Point(own=x), rows).copy()
            message = node.compress(Lifted(node.gradients(rows=rows) - last), ctx)
        x[:] = node.own()
        return message, x

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[VRMARINA]:
        fitting = [compressor for compressor in compressors if isinstance(compressor, cls.requires)]
        return [cls(fitting[1], p=0.2, batch=2)]
