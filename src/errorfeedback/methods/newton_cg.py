"""Newton's method by conjugate gradients across the clients (Hestenes, Stiefel 1952; truncated as Dembo, Steihaug 1983): q
products with the Hessian between two gradients, each an exchange,

    s ~ argmin g's + s'(H + ridge) s/2,   g = grad f(x),   H = (1/n) sum_i hess f_i(x),   x+ = x + s.

Rounds go in turns of q + 1. In the first clients send gradients at x; in the others the server shows them a direction p by
standing at x + gamma p, and they answer with hess f_i(x) p, p from how x has moved. gamma only says how far off directions
are shown; the step size of a gradient step will do. p travels as x does, on J_i.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Compressor
from errorfeedback.compressors.identity import Identity
from errorfeedback.core import Floats, Lifted, Model, Point, Round
from errorfeedback.methods.node import Node
from errorfeedback.methods.stepping import StepReader
from errorfeedback.problems.base import Problem, Twice, without_hessians
from errorfeedback.sums import dot
from errorfeedback.wire.message import Message

Iteration = tuple[Model, Model, Model]
"""s, the residual r = -g - (H + ridge) s, and the direction p that is shown."""


@dataclass(frozen=True)
class NewtonCG(StepReader):
    """`inner`: q. `ridge`: what is added to the Hessian's diagonal.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=20, m=3, c=2)
    >>> run = ef.solve(problem, ef.NewtonCG(inner=9), ef.Constant(0.01), rounds=50, every=10)
    >>> bool(run.history["grad_norm2"][-1] < 1e-5 * run.history["grad_norm2"][0])
    True
    """

    memory: ClassVar[int] = 1
    compressor: Compressor = field(default=Identity(), init=False)
    inner: int = 10
    ridge: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_inner(self.inner, self.ridge)

    @property
    def turn(self) -> int:
        return self.inner + 1

    def lacking(self, problem: Problem) -> str:
        return without_hessians(problem)

    def init(self, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        return node.compress(node.gradients(), ctx), Lifted(node.own().copy())

    def client(self, x: Lifted, node: Node, ctx: Round) -> tuple[Message, Lifted]:
        if ctx.t % self.turn == 0:
            return self.init(node, ctx)
        assert isinstance(node.problem, Twice), "who has no Hessians is refused"
        p = Lifted(-self.estimate_at(x, node))
        return node.compress(node.problem.hessian_times(Point(own=x), p), ctx), x

    def server_init(self, mean: Model, ctx: Round) -> tuple[Model, Iteration]:
        r = Model(-mean)
        return Model(mean.copy()), (Model(np.zeros_like(mean)), r, r.copy())

    def server(self, state: Iteration, mean: Model, ctx: Round) -> tuple[Model, Iteration]:
        turn = ctx.t % self.turn
        if turn == 0:
            return self.server_init(mean, ctx)
        s, r, p = iterate(state, Model(mean + self.ridge * state[2]))
        aim = s / self.known_step if turn == self.inner else p
        return Model(state[2] - aim), (s, r, p)

    @classmethod
    def examples(cls, compressors: Sequence[Compressor]) -> Sequence[NewtonCG]:
        return [cls(inner=4, ridge=0.1)]


def check_inner(inner: object, ridge: float) -> None:
    if isinstance(inner, bool) or not isinstance(inner, int) or inner < 1:
        raise ValueError(f"inner = {inner!r}; it must be a whole number of products of at least 1")
    if not ridge >= 0:
        raise ValueError(f"ridge = {ridge}; what is added to a Hessian's diagonal is at least 0")


def iterate(state: Iteration, Hp: Model) -> Iteration:
    """One step of conjugate gradients; where nothing curves along p, or nothing is left, it ends there."""
    s, r, p = state
    rr, bend = dot(r, r), dot(p, Hp)
    if not bend > 0:
        return s, r, Model(np.zeros_like(p))
    a = rr / bend
    left: Floats = r - a * Hp
    return Model(s + a * p), Model(left), Model(left + dot(Model(left), Model(left)) / rr * p)
