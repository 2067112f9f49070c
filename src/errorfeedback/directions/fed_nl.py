"""FedNL (Safaryan, Islamov, Qian, Richtarik 2021, option 2): Newton steps with compressed Hessians,

    H_i+ = H_i + C(hess f_i(x) - H_i),   l = (1/n) sum_i ||H_i+ - hess f_i(x)||_F,   direction = (mean H_i+ + l2 + l I)^-1 g,

in every round. H + l I is never below the Hessian of f, so that a full step (`Constant(1.0)`) is never longer than Newton's.
Theirs uses the H_i from before the round and begins with whole Hessians; ours the newest, and begins with H_i = 0. A client
tells the root mean square of what is missing, from which l is bounded: entries off the diagonal count twice, and the
triangle has |J_i| (|J_i| + 1)/2 of them. `TopK` is on the entries of a triangle, `LowRank` is their rank R; the gradient
travels as the method sends it (`DGD`: whole, as theirs). With `Armijo` it is FedNL-LS.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from errorfeedback.compressors.base import Contractive
from errorfeedback.compressors.low_rank import LowRank
from errorfeedback.compressors.top_k import TopK
from errorfeedback.core import Model
from errorfeedback.directions.base import Asking, Direction, Hessians
from errorfeedback.directions.few_bit_hessians import damped
from errorfeedback.directions.quasi_newton import Compact, Metric
from errorfeedback.sums import Quadratic


@dataclass(frozen=True, eq=False)
class LearnedHessian:
    """The memory."""

    triangle: Model | None = None
    """The mean of the clients' estimates, its upper triangle."""
    metric: Metric | None = None
    """Its damped inverse; None before the first, and where nothing curves."""


@dataclass(frozen=True)
class FedNL(Direction):
    """`compressor`: of the Hessians.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=10, d=40, m=5, c=4)
    >>> run = ef.solve(problem, ef.DGD(), ef.Constant(1.0), direction=ef.FedNL(ef.TopK(20)), rounds=60)
    >>> bool(run.history["grad_norm2"][-1] < 1e-9 * run.history["grad_norm2"][0])
    True
    """

    adds_penalty: ClassVar[bool] = True
    compressor: Contractive

    def __post_init__(self) -> None:
        if not isinstance(self.compressor, Contractive):
            raise ValueError(f"FedNL needs a contractive compressor for its Hessians, and {self.compressor} is not")

    @property
    def hessians(self) -> Asking:
        return Asking(self.compressor)

    def start(self, x: Model) -> LearnedHessian:
        return LearnedHessian()

    def asks(self, state: LearnedHessian, gained: float | None) -> bool:
        return True

    def bent(self, state: LearnedHessian, answer: Hessians) -> LearnedHessian:
        triangle = answer.mean if state.triangle is None else Model(state.triangle + answer.mean)
        sizes = answer.support.sizes
        norms = np.sqrt(sizes * (sizes + 1)) * answer.missing  # 2 |J_i| (|J_i| + 1)/2 squares of that mean
        return LearnedHessian(triangle, damped(triangle, answer, float(norms.sum()) / answer.support.n_total))

    def __call__(self, state: LearnedHessian, x: Model, g: Model) -> tuple[Model, LearnedHessian]:
        return (g if state.metric is None else Model(state.metric.solve(g))), state

    def length(self, state: LearnedHessian) -> float | None:
        return None if state.metric is None else 1.0

    def quadratic(self, state: LearnedHessian) -> Quadratic | None:
        return None if state.metric is None else Quadratic(Compact(1.0, state.metric).forms)

    @classmethod
    def examples(cls) -> Sequence[FedNL]:
        return [cls(TopK(2)), cls(LowRank(1))]
