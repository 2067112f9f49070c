"""EF21-BC on J_i (Fatkhullin et al. 2021, Algorithm 5): the server, too, sends a compressed change.

    b = C(g - w),   w = w + b,   x = x - gamma w,

where g is the server's estimate (any direction made of it) and w what everybody knows of it; w = 0 at the start. A client
gets b on its own features, and gamma. With w = g this is the step that the server wants; the error w - g is sent later. The
step size of its theorem is `ef.RareTwoWay`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Contractive
from errorfeedback.compressors.exact_on_common import ExactOnCommon
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import Lifted, Model, Round
from errorfeedback.downlinks.base import Broadcast, Downlink, Step
from errorfeedback.sparsity.support import Support, full_support


@dataclass(frozen=True)
class Compressed(Downlink):
    """C acts on all d features at once: `Compressed(TopK(M))` tells M numbers of the change of the direction.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=20, d=60, m=3, c=4)
    >>> runs = [ef.solve(problem, ef.EF21(ef.TopK(1)), ef.Constant(0.02), rounds=400, every=400, downlink=down)
    ...         for down in (ef.Whole(), ef.Compressed(ef.TopK(5)))]
    >>> [int(run.history["downlink_bits"][-1]) // 8 // problem.n for run in runs]  # bytes down per client
    [39900, 8280]
    >>> bool(runs[1].history["f"][-1] < 1.01 * runs[0].history["f"][-1])
    True
    """

    numbers: ClassVar[int] = 1
    knows_prox: ClassVar[bool] = False
    compressor: Contractive
    """C, of the server."""

    def __post_init__(self) -> None:
        check_server_side(self.compressor)

    def start(self, x: Model) -> Model:
        return np.zeros_like(x)

    def send(self, w: Model, x: Model, step: Step) -> tuple[Broadcast, Model]:
        sent = self.compressor.on(all_features(len(x)))(Lifted(step.direction - w), Round(0, 0))
        broadcast = Broadcast(sent.lifted(), sent.positions, (step.gamma,))
        w = self.receive(w, x, broadcast)
        step.direction, step.taken = w, Model(-step.gamma * w)
        return broadcast, w

    def receive(self, w: Model, x: Model, broadcast: Broadcast) -> Model:
        w[broadcast.features] += broadcast.values[broadcast.features]
        (gamma,) = broadcast.numbers
        x -= gamma * w
        return w

    @classmethod
    def examples(cls) -> Sequence[Compressed]:
        return [cls(TopK(3))]


def check_server_side(compressor: Contractive) -> None:
    """Raise where clients could not tell what was sent."""
    if not isinstance(compressor, (TopK, ExactOnCommon)):
        raise ValueError(f"compressor = {compressor}; a downlink is compressed by TopK or ExactOnCommon")


@lru_cache(maxsize=4)
def all_features(d: int) -> Support:
    """The server as one client that owns all features."""
    return full_support(1, d)
