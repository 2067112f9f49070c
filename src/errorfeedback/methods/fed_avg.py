"""FedAvg (McMahan et al. 2017): every client takes K gradient steps on its own, and the server takes the mean of the models,

    w_i = x;   w_i = w_i - rate grad f_i(w_i)  K times;   x+ = x - gamma (1/n) sum_i (x - w_i)/(K rate).

gamma = K rate is plain averaging (`Averaging`), another one FedAvg with a server step of its own (Reddi et al. 2021). With
an unbiased compressor it is FedPAQ (Reisizadeh et al. 2020). Where clients differ it stops beside the minimum, at a distance
that grows with K rate: no step size of it has a theorem here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from errorfeedback.compressors.base import Compressor
from errorfeedback.core import Lifted, Model, Round
from errorfeedback.methods.local_steps import FixedSteps
from errorfeedback.methods.node import Node
from errorfeedback.wire.message import Message


@dataclass(frozen=True)
class FedAvg(FixedSteps):
    """Local steps, averaged.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> run = ef.solve(problem, ef.FedAvg(rate=0.01), ef.Averaging(), rounds=200, every=200)
    >>> bool(run.history["f"][-1] < 0.5 * run.history["f"][0])
    True
    """

    def init(self, node: Node, ctx: Round) -> tuple[Message, None]:
        return self.client(None, node, ctx)

    def client(self, state: None, node: Node, ctx: Round) -> tuple[Message, None]:
        return node.compress(Lifted(self.walk(node, ctx, self.steps) / self.unit), ctx), None

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    def server(self, state: None, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[FedAvg]:
        return [cls(steps=3, rate=0.01, batch=2)]
