"""Hessian estimates on the clients: EF21 on matrices (FedNL: Safaryan, Islamov, Qian, Richtarik 2021),

    H_i = H_i + C(hess f_i(x) - H_i),    H_i = 0 at first,

over the pairs of every client's features, in rounds in which the server asks. With its message a client tells the root mean
square of what is still missing, so that the server knows how much to trust the small eigenvalues of the mean.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from errorfeedback.compressors.base import Contractive, Operator
from errorfeedback.core import Lifted, Point, Round
from errorfeedback.problems.base import Problem, Twice
from errorfeedback.sparsity.pairs import pairs_of
from errorfeedback.sparsity.support import Support
from errorfeedback.wire.message import Message
from errorfeedback.wire.truncated import truncated

MISSING_BITS = 16
"""Of the root mean square of what is missing."""
MISSING_WIDTHS = np.array([MISSING_BITS])
CURVATURE_ROUNDS = 2**40


def bend_key(ctx: Round) -> Round:
    """What a frame of curvature is keyed by: no other frame can be taken for it."""
    return Round(CURVATURE_ROUNDS + ctx.t, ctx.seed)


class Bending:
    """The Hessian estimates of a shard's clients."""

    def __init__(self, problem: Problem, compressor: Contractive) -> None:
        if not (isinstance(problem, Twice) and problem.bends):
            raise ValueError(f"{type(problem).__name__} has no Hessians to tell; use ef.LBFGS() in place of ef.Curvature()")
        self.problem: Twice = problem
        self.compressor = compressor
        self.estimate = Lifted(np.zeros(0))

    @cached_property
    def pairs(self) -> Support:
        """Made when they are first asked for: many runs never are."""
        return pairs_of(self.problem.support)

    @cached_property
    def compress(self) -> Operator:
        return self.compressor.on(self.pairs)

    def message(self, at: Point, ctx: Round) -> Message:
        """What the clients send of their Hessians where they stand."""
        if not len(self.estimate):
            self.estimate = Lifted(np.zeros(self.pairs.size))
        truth = Lifted(np.empty(self.pairs.size))
        self.problem.hessians(at, truth)
        np.copyto(truth, self.estimate, where=~np.isfinite(truth))  # a step too long, which is undone: it says nothing
        message = self.compress.track(self.estimate, Lifted(truth.copy()), bend_key(ctx))
        missing = np.sqrt(self.pairs.norms2(Lifted(truth - self.estimate)) / self.pairs.sizes)
        message.telemetry = truncated(missing[:, None], MISSING_BITS)
        return message
