"""FedProx (Li et al. 2020): clients stay near x, by K gradient steps on f_i(w) + (mu/2)||w - x||^2,

    w_i = w_i - rate (grad f_i(w_i) + mu (w_i - x))  K times;   x+ = x - gamma mu (1/n) sum_i (x - w_i).

mu (x - w_i) approaches the gradient of f_i's Moreau envelope as K grows; gamma = 1/mu is plain averaging (`Averaging`).
Where clients differ it stops at the minimum of the mean envelope, beside that of f: no step size of it has a theorem here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from errorfeedback.compressors.base import Compressor
from errorfeedback.core import Lifted, Model, Round
from errorfeedback.methods.local_steps import FixedSteps
from errorfeedback.methods.node import Node
from errorfeedback.wire.message import Message


@dataclass(frozen=True)
class FedProx(FixedSteps):
    """Local steps that are held back. `mu`: how firmly.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> run = ef.solve(problem, ef.FedProx(rate=0.01, mu=10.0), ef.Averaging(), rounds=200, every=200)
    >>> bool(run.history["f"][-1] < 0.5 * run.history["f"][0])
    True
    """

    mu: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.mu < (inf if self.rate is None else 1 / self.rate):
            raise ValueError(
                f"mu = {self.mu}, rate = {self.rate}; mu must be above 0 and mu rate below 1, or steps overshoot x"
            )

    def natural_rate(self, L_max: float) -> float:
        return 1 / (L_max + self.mu)

    @property
    def unit(self) -> float:
        return 1 / self.mu

    def init(self, node: Node, ctx: Round) -> tuple[Message, None]:
        return self.client(None, node, ctx)

    def client(self, state: None, node: Node, ctx: Round) -> tuple[Message, None]:
        x = node.own()
        moved = self.walk(node, ctx, self.steps, lambda w: Lifted(self.mu * (w - x)))
        return node.compress(Lifted(self.mu * moved), ctx), None

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    def server(self, state: None, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[FedProx]:
        return [cls(steps=3, rate=0.01, mu=20.0)]
