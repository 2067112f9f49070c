"""The client side of a shard as a method sees it: where the clients stand, and an oracle that answers there or elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from errorfeedback.compressors.base import Operator
from errorfeedback.core import Lifted, Model, PerClient, Point, Sample
from errorfeedback.problems.base import Problem, ReadsAhead


class Node:
    """Some clients at once: their `problem`, and `compress`, the compressor on their features. `scratch` is one lifted
    vector, which may be shared with other shards.

    >>> import errorfeedback as ef
    >>> problem = ef.synthetic(n=4, d=6, m=3, c=2)
    >>> node = ef.Node(problem, ef.TopK(1).on(problem.support), np.empty(problem.support.size))
    >>> node.stand(np.zeros(problem.d))
    >>> message = node.compress(node.gradients(), ef.Round(0, 0))  # the largest entry of every client's gradient
    >>> len(message.values), len(node.own())
    (4, 12)
    """

    def __init__(self, problem: Problem, compress: Operator, scratch: Lifted) -> None:
        self.problem, self.compress, self.support = problem, compress, problem.support
        self.at = Point()
        """Where the clients stand in this round."""
        self._scratch = Lifted(scratch[: problem.support.size])
        self._values = PerClient(np.zeros(problem.n))
        self._holds_here = False  # the scratch holds the gradients where the clients stand
        self._holds_values = False
        self._has_read = False
        self._wants_values = False
        self._copy: Lifted | None = None
        self.judge: Callable[[Lifted], Lifted | None] = lambda grads: None
        """g_i - grad f_i of the method's memory; set by the shard."""

    def gradients(self, at: Point | None = None, rows: Sample | None = None) -> Lifted:
        """The gradients of all f_i: where the clients stand or elsewhere, over all rows or a sample of them.

        The array is scratch: it may be overwritten, and is valid until the next call.
        """
        if at is None and rows is None:
            if not self._holds_here:
                self._evaluate()
            self._holds_here = False  # whoever has it may overwrite it
            return self._scratch
        if rows is not None and not self.problem.samples:
            raise ValueError(
                f"{type(self.problem).__name__} takes no gradients over a sample of its rows; use a method on all of them "
                "(batch=None), or a problem that says it `samples` (ef.problem does with rows=)"
            )
        self._holds_here = self._has_read = False
        self.problem.gradients(self.at if at is None else at, self._scratch, rows=rows)
        return self._scratch

    def own(self) -> Lifted:
        """Every client's own coordinates of the point where it stands."""
        return self.at.on(self.support.gather)

    def peek(self) -> Lifted:
        """The gradients where the clients stand, over all rows, for reading only."""
        if self._copy is not None:
            return self._copy
        if not self._holds_here:
            self._evaluate()
        return self._scratch

    def values(self) -> PerClient:
        """f_i where the clients stand; in the pass of the gradients, where those are asked for too."""
        if not self._holds_values:
            if self._wants_values and not self._holds_here and self._copy is None:
                self._evaluate()
            else:
                self._values[:] = self.problem.values(self.at)
                self._holds_values = True
        return self._values

    def error(self) -> Lifted | None:
        """g_i - grad f_i where the clients stand, by the memory that is in force; None where they keep no estimates."""
        return self.judge(self.peek())

    def stand(self, x: Model, values: bool = False) -> None:
        """A new round: the clients are at x. `values`: somebody will ask for the f_i there."""
        self.at.shared = x
        self._holds_here = self._holds_values = False
        self._wants_values, self._copy = values, None

    def keep_gradients(self) -> None:
        """Somebody will look at the gradients after the method may have overwritten them."""
        self._copy = self.peek().copy()

    def read_ahead(self, x: Model) -> None:
        """Read x ahead of the round, where that pays."""
        self._has_read = isinstance(self.problem, ReadsAhead) and self.problem.read_ahead(x, self._scratch)

    def _evaluate(self) -> None:
        values = self._values if self._wants_values else None
        if self._has_read and isinstance(self.problem, ReadsAhead) and self.at.shared is not None:
            self.problem.gradients_after_reading(self.at.shared, self._scratch, values)
        else:
            self.problem.gradients(self.at, self._scratch, values=values)
        self._has_read, self._holds_here, self._holds_values = False, True, self._wants_values
