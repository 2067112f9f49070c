"""f_i as plain Python functions x -> (value, gradient); who owns which feature is found by probing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

import errorfeedback as ef


@dataclass(frozen=True, eq=False)
class Functions(ef.Problem):
    functions: Sequence[Callable]

    def _answers(self, at):
        own = np.split(at.on(self.support.gather), self.support.indptr[1:-1])
        for i, f in enumerate(self.functions):
            x, J = np.zeros(self.d), self.support.features(i)
            x[J] = own[i]
            value, gradient = f(x)
            yield value, gradient[J]

    def gradients(self, at, out, *, rows=None, values=None):
        of_all, gradients = zip(*self._answers(at), strict=True)
        out[:] = np.concatenate(gradients)
        if values is not None:
            values[:] = of_all

    def values(self, at):
        return np.array([value for value, _ in self._answers(at)])

    def shard(self, lo, hi):
        return replace(self, support=self.support.shard(lo, hi), functions=self.functions[lo:hi])


def probed(functions, d, points=3):
    """A client owns the features in which its gradient is not zero at some of a few random points."""
    xs = np.random.default_rng(0).standard_normal((points, d))
    owned = [np.flatnonzero(np.any([f(x)[1] != 0 for x in xs], axis=0)) for f in functions]
    ends = np.concatenate([[0], np.cumsum([len(J) for J in owned])])
    return Functions(support=ef.Support(ends, np.concatenate(owned), d), functions=functions)
