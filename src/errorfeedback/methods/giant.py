"""GIANT (Wang, Roosta-Khorasani, Xu, Mahoney 2018): every client's own Newton step for everybody's gradient, averaged,

    g = (1/n) sum_i grad f_i(x),   s_i = (hess f_i(x) + ridge)^-1 g,   x+ = x - step (1/n) sum_i s_i,

s_i by `inner` steps of conjugate gradients. It is Newton's method where all Hessians are alike. Rounds go in turns of two:
in the first clients send gradients at x; then the server stands at x - gamma g, where they find g in how x has moved, and
answer with s_i. gamma only says how far off g is shown. Theirs has a line search over steps in a third exchange; here `step`
is given.

On rare features (ours): with D = diag(|I_j|/n) the Hessian of f is near D^1/2 hess f_i D^1/2, so that
s_i = D^-1/2 (hess f_i(x) + ridge)^-1 D^-1/2 g on J_i, and feature j is averaged over its owners. Dense clients have D = I.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from errorfeedback.compressors.base import Compressor
from errorfeedback.compressors.identity import Identity
from errorfeedback.core import Lifted, Model, PerClient, Point, Round
from errorfeedback.methods.newton_cg import check_inner
from errorfeedback.methods.node import Node
from errorfeedback.methods.stepping import StepReader
from errorfeedback.problems.base import Problem, Twice, without_hessians
from errorfeedback.wire.message import Message

DONE = 1e-28
"""A residual whose square is below that share of the first one's is nothing but rounding."""
OFFSET = 2.0**-6
"""The gamma with which g is shown where `step` is tuned."""


@dataclass(frozen=True)
class GIANT(StepReader):
    """`inner`: steps of conjugate gradients on every client; `ridge` is added to its Hessian; `step`: how far to go.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=30, c=10)
    >>> run = ef.solve(problem, ef.GIANT(step=0.3), ef.Constant(0.01), rounds=40, every=2)
    >>> bool(run.history["grad_norm2"][-1] < 1e-3 * run.history["grad_norm2"][0])
    True
    """

    memory: ClassVar[int] = 1
    compressor: Compressor = field(default=Identity(), init=False)
    inner: int = 20
    ridge: float = 0.0
    step: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_inner(self.inner, self.ridge)
        if not 0 < self.step <= 1:
            raise ValueError(f"step = {self.step}; the share of a Newton step must be in (0, 1]")

    def tuned(self, gamma: float) -> tuple[GIANT, float]:
        """Its own step is what can be tuned: how far off g is shown changes nothing."""
        return replace(self, step=gamma), OFFSET

    @property
    def turn(self) -> int:
        return 2

    def lacking(self, problem: Problem) -> str:
        return without_hessians(problem)

    def init(self, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        return node.compress(node.gradients(), ctx), Lifted(node.own().copy())

    def client(self, x: Lifted, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        if ctx.t % self.turn == 0:
            return self.init(node, ctx)
        rare = (node.support.n_total / node.support.counts[node.support.indices]) ** 0.5  # D^-1/2
        s = self._solved(node, x, Lifted(rare * self.estimate_at(x, node)))
        return node.compress(Lifted((rare**3 * s).astype(x.dtype, copy=False)), ctx), x  # n/|I_j| of it: the owners' mean

    def _solved(self, node: Node, x: Lifted, g: Lifted) -> Lifted:
        """(hess f_i(x) + ridge)^-1 g of every client, each with its own conjugate gradients."""
        assert isinstance(node.problem, Twice), "who has no Hessians is refused"
        support, at = node.support, Point(own=x)
        s, r = Lifted(np.zeros_like(x)), Lifted(g.astype(x.dtype))
        p, rr = r, support.norms2(r)
        first = rr
        for _ in range(self.inner):
            Hp = node.problem.hessian_times(at, p) + self.ridge * p
            bend = support.sums(Lifted(p * Hp))
            a = support.repeat(_over(rr, bend, (bend > 0) & (rr > DONE * first)))
            s, r = Lifted(s + a * p), Lifted(r - a * Hp)
            last, rr = rr, support.norms2(r)
            p = Lifted(r + support.repeat(_over(rr, last, last > 0)) * p)
        return s

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, Model]:
        g = Model(mean.copy())
        return g, g

    def server(self, g: Model, mean: Model, ctx: Round) -> tuple[Model, Model]:
        if ctx.t % self.turn == 0:
            return self.server_init(mean, ctx)
        return Model(self.step / self.known_step * mean - g), g

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[GIANT]:
        return [cls(inner=5, ridge=0.5)]


def _over(a: PerClient, b: PerClient, where: NDArray[np.bool_]) -> PerClient:
    """a/b, and 0 elsewhere."""
    return PerClient(np.divide(a, b, out=np.zeros_like(a), where=where))
