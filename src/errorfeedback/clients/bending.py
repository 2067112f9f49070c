"""Hessian estimates on the clients: EF21 on matrices (FedNL: Safaryan, Islamov, Qian, Richtarik 2021),

    H_i = H_i + C(hess f_i(x) - H_i),    H_i = 0 at first,

over the pairs of every client's features, in rounds in which the server asks; all clients tell, or some of them
(`directions.base.Asking`). With its message a client tells the root mean square of what is still missing, so that the
server knows how much to trust the small eigenvalues of the mean.
"""

from __future__ import annotations

import numpy as np

from errorfeedback.compressors.base import Operator
from errorfeedback.core import Integers, Lifted, Point, Round, RowMemory
from errorfeedback.directions.base import Asking
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


def nothing_told(support: Support) -> RowMemory:
    """The estimates of clients that have not been asked."""
    return RowMemory(np.zeros(0), np.zeros(support.n, dtype=np.int64))


class Tellers:
    """The clients of a shard that tell their Hessians."""

    def __init__(self, problem: Problem, asking: Asking, seed: int) -> None:
        support = problem.support
        self.seed, self.pairs = seed, pairs_of(asking.told_by(support, seed))
        self._coarse, self._fine = (asking.words(finely).on(self.pairs) for finely in (False, True))
        self.above = asking.above
        places = asking.tellers(support, seed)
        self.parts = [(lo, hi, _twice(problem, lo, hi)) for lo, hi in _stretches(places)]
        self.counts = np.zeros(support.n, dtype=np.int64)
        self.counts[places] = self.pairs.sizes
        self.segments = support.indptr

    def words(self, finely: bool) -> Operator:
        """How they tell."""
        return self._fine if finely else self._coarse

    def hessians(self, at: Point) -> Lifted:
        """Theirs, where they stand."""
        out, start = Lifted(np.empty(self.pairs.size)), 0
        for lo, hi, part in self.parts:
            end = start + int(self.counts[lo:hi].sum())
            there = at if at.own is None else Point(own=Lifted(at.own[self.segments[lo] : self.segments[hi]]))
            part.hessians(there, Lifted(out[start:end]), self.above)
            start = end
        return out


class Bending:
    """The Hessian estimates of a shard's clients."""

    def __init__(self, problem: Problem, asking: Asking) -> None:
        if not (isinstance(problem, Twice) and problem.bends):
            raise ValueError(f"{type(problem).__name__} has no Hessians to tell; use ef.LBFGS() in place of ef.Curvature()")
        self.problem: Problem = problem
        self.asking = asking
        self.estimate = nothing_told(problem.support)
        self._tellers: Tellers | None = None

    def tellers(self, seed: int) -> Tellers | None:
        """Made when they are first asked: many runs never ask. None where none of these clients tells."""
        if not len(self.asking.tellers(self.problem.support, seed)):
            return None
        if self._tellers is None or self._tellers.seed != seed:
            self._tellers = Tellers(self.problem, self.asking, seed)
        return self._tellers

    def message(self, at: Point, ctx: Round, finely: bool = False) -> Message | None:
        """What those who tell send of their Hessians where they stand; None where nobody does."""
        tell = self.tellers(ctx.seed)
        if tell is None:
            return None
        if not len(self.estimate.values):
            self.estimate = RowMemory(np.zeros(tell.pairs.size), tell.counts)
        if not np.array_equal(self.estimate.counts, tell.counts):
            raise ValueError("the Hessian estimates that were kept are not those of the clients that tell theirs")
        estimate, truth = Lifted(self.estimate.values), tell.hessians(at)
        np.copyto(truth, estimate, where=~np.isfinite(truth))  # a step too long, which is undone: it says nothing
        message = tell.words(finely).track(estimate, Lifted(truth.copy()), bend_key(ctx))
        missing = np.sqrt(tell.pairs.norms2(Lifted(truth - estimate)) / tell.pairs.sizes)
        message.telemetry = truncated(missing[:, None], MISSING_BITS)
        return message


def _stretches(places: Integers) -> list[tuple[int, int]]:
    """Runs of places in a row.

    >>> _stretches(np.array([1, 2, 5]))
    [(1, 3), (5, 6)]
    """
    cuts = np.flatnonzero(np.diff(places) != 1) + 1
    return [(int(run[0]), int(run[-1]) + 1) for run in np.split(places, cuts) if len(run)]


def _twice(problem: Problem, lo: int, hi: int) -> Twice:
    part = problem if (lo, hi) == (0, problem.n) else problem.shard(lo, hi)
    assert isinstance(part, Twice), "a part of a problem has Hessians as the whole has"
    return part
