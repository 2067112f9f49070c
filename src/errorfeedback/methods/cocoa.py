"""CoCoA+ (Ma, Smith, Jaggi, Jordan, Richtarik, Takac 2015; with LocalSDCA): dual coordinate ascent on the clients' rows,

    min_x f(x) + (l2/2)||x||^2,   x = (1/l2) sum_r s_r u_r a_r,   one dual variable u_r per row, kept by its client;
    client i goes `epochs` times over its rows with safety sigma (`losses.dual`): du_i, and dx_i = (1/l2) sum_r s_r du_r a_r;
    x+ = x + gamma sum_i dx_i,   u_i+ = u_i + gamma du_i.

gamma = 1 adds the changes up, gamma = 1/n is their mean. Safe are sigma >= gamma max ||sum_i v_i||^2 / sum_i ||v_i||^2:
theirs is gamma n; where features are rare gamma c is enough (Lemma 4), and that is the default. What is sent is dx_i on J_i,
and x comes back; u never leaves a client. It starts from u = 0, that is from x = 0: another start is walked back in round 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Compressor
from errorfeedback.compressors.identity import Identity
from errorfeedback.core import Lifted, Model, Round, RowMemory
from errorfeedback.methods.node import Node
from errorfeedback.methods.stepping import StepReader
from errorfeedback.problems.base import Dual, Problem
from errorfeedback.problems.proximal import ElasticNet
from errorfeedback.wire.message import Message


@dataclass(frozen=True)
class CoCoAPlus(StepReader):
    """`l2`: the penalty, which the dual needs; give `prox=ef.ElasticNet(l2=...)` too to see it in the history's f. `epochs`:
    how often a client goes over its rows in a round. `sigma`: None is gamma c.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> run = ef.solve(problem, ef.CoCoAPlus(l2=1.0), ef.CocoaStep(), rounds=100, prox=ef.ElasticNet(l2=1.0))
    >>> bool(abs(problem.gradient(run.x) + run.x).max() < 1e-6)
    True
    """

    adds_penalty: ClassVar[bool] = True
    in_expectation: ClassVar[bool] = True
    compressor: Compressor = field(default=Identity(), init=False)
    l2: float = 1.0
    epochs: int = 1
    sigma: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, number in (("l2", self.l2), ("sigma", 1.0 if self.sigma is None else self.sigma)):
            if not (isfinite(number) and number > 0):
                raise ValueError(f"{name} = {number}; it must be finite and above 0")
        if isinstance(self.epochs, bool) or not isinstance(self.epochs, int) or self.epochs < 1:
            raise ValueError(f"epochs = {self.epochs!r}; it must be a whole number of at least 1")

    def tuned(self, gamma: float) -> tuple[CoCoAPlus, float]:
        """It has no step to tune: l2 says how near it comes to the minimum of f alone, and how fast."""
        return replace(self, l2=gamma), 1.0

    def check_penalty(self, prox: ElasticNet | None) -> None:
        if prox is not None and not (prox.smooth and np.all(np.asarray(prox.l2) == self.l2)):
            raise ValueError(
                f"CoCoAPlus minimises f + (l2/2)||x||^2 with one l2 for all columns, here {self.l2}, and the penalty is "
                "another one (l1, or weights that differ, as with scaled features or a free intercept); give both the same "
                "l2, or no penalty"
            )

    def lacking(self, problem: Problem) -> str:
        if isinstance(problem, Dual) and problem.has_dual:
            return ""
        kind = type(problem).__name__
        return (
            f"it needs a dual step, and {kind} has none (linear models with the squared or logistic loss have, not scaled)"
        )

    def safety(self, node: Node) -> float:
        """sigma, filled in."""
        return self.known_step * node.support.c if self.sigma is None else self.sigma

    def init(self, node: Node, ctx: Round) -> tuple[Message, RowMemory]:
        assert isinstance(node.problem, Dual), "who has no dual is refused"
        owners = node.support.counts[node.support.indices]
        back = Lifted(node.own() / (owners * self.known_step))
        return self._ascend(node, Lifted(np.zeros_like(node.own())), node.problem.no_duals(), back, ctx)

    def client(self, u: RowMemory, node: Node, ctx: Round) -> tuple[Message, RowMemory]:
        return self._ascend(node, node.own(), u, Lifted(np.zeros_like(node.own())), ctx)

    def _ascend(self, node: Node, w: Lifted, u: RowMemory, back: Lifted, ctx: Round) -> tuple[Message, RowMemory]:
        assert isinstance(node.problem, Dual), "who has no dual is refused"
        dx, after = node.problem.ascend(w, u, self.l2, self.safety(node), self.epochs, ctx)
        message = node.compress(Lifted((node.support.n_total * (back - dx)).astype(w.dtype, copy=False)), ctx)
        return message, RowMemory(u.values + self.known_step * (after.values - u.values), u.counts)

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    def server(self, state: None, mean: Model, ctx: Round) -> tuple[Model, None]:
        return mean, None

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[CoCoAPlus]:
        return [cls(l2=0.5)]
