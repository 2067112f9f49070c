"""EF21-P (Gruntkowska, Tyurin, Richtarik 2023): error feedback on the model in place of the gradient.

    x = x - gamma g,   w = w + C(x - w),

where x is the server's, and w what everybody knows of it: clients stand at w, and so does the run. It is kept as e = x - w,
of which C is sent and the rest remembered: error feedback of 2014 on the way down. With `EF14Momentum` up it is dist-EF-SGDM
(Zheng, Huang, Kwok 2019). The step size of its theorem with gradient descent is `ef.PrimalStep`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Contractive
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import Lifted, Model, Round
from errorfeedback.downlinks.base import Broadcast, Downlink, Step
from errorfeedback.downlinks.compressed import all_features, check_server_side


@dataclass(frozen=True)
class Primal(Downlink):
    """C acts on all d features at once: `Primal(TopK(M))` tells M numbers of what the clients' model is behind by.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=20, d=60, m=3, c=4)
    >>> run = ef.solve(problem, ef.DGD(), ef.PrimalStep(ef.TopK(6)), rounds=600, every=600, downlink=ef.Primal(ef.TopK(6)))
    >>> bool(run.history["f"][-1] < 0.1 * run.history["f"][0])
    True
    """

    knows_prox: ClassVar[bool] = False
    compressor: Contractive
    """C, of the server."""

    def __post_init__(self) -> None:
        check_server_side(self.compressor)

    def start(self, x: Model) -> Model:
        return Model(np.zeros_like(x))

    def send(self, e: Model, x: Model, step: Step) -> tuple[Broadcast, Model]:
        e += step.vector(x)
        sent = self.compressor.on(all_features(len(x)))(Lifted(e), Round(0, 0))
        step.taken = Model(sent.lifted())
        sent.take_from(Lifted(e))
        broadcast = Broadcast(step.taken, sent.positions)
        self.receive(e, x, broadcast)
        return broadcast, e

    def receive(self, e: Model, x: Model, broadcast: Broadcast) -> Model:
        """The clients' e stays 0: the server alone knows x."""
        x[broadcast.features] += broadcast.values[broadcast.features]
        return e

    @classmethod
    def examples(cls) -> Sequence[Primal]:
        return [cls(TopK(3))]
