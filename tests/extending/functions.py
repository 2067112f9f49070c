"""f_i as plain Python functions w -> (value, gradient) of a client's own coordinates; who owns what is found by probing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

import errorfeedback as ef


@dataclass(frozen=True, eq=False)
class Functions(ef.Problem):
    functions: Sequence[Callable]

    def _answers(self, at):
        w = np.split(at.on(self.support.gather), self.support.indptr[1:-1])
        return [f(own) for f, own in zip(self.functions, w, strict=True)]

    def gradients(self, at, out, *, rows=None, values=None):
        found = self._answers(at)
        out[:] = np.concatenate([gradient for _, gradient in found])
        if values is not None:
            values[:] = [value for value, _ in found]

    def values(self, at):
        return np.array([value for value, _ in self._answers(at)])

    def shard(self, lo, hi):
        return replace(self, support=self.support.shard(lo, hi), functions=self.functions[lo:hi])


def probed(functions, d, points=3):
    """Functions of all of x: a client owns the features in which its gradient is not zero at some of a few random points."""
    xs = np.random.default_rng(0).standard_normal((points, d))
    owned = [np.flatnonzero(np.any([f(x)[1] != 0 for x in xs], axis=0)) for f in functions]
    support = ef.Support(np.concatenate([[0], np.cumsum([len(J) for J in owned])]), np.concatenate(owned), d)

    def restricted(f, J):
        def of_own(w):
            x = np.zeros(d)
            x[J] = w
            value, gradient = f(x)
            return value, gradient[J]

        return of_own

    return Functions(support=support, functions=[restricted(f, J) for f, J in zip(functions, owned, strict=True)])
