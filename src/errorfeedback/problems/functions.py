"""f_i as plain Python functions, one per client: (value, gradient) at a point.

With `supports` a function takes w = x on J_i and gives the gradient there. Without, it takes all of x: J_i is where its
gradient is not zero at some of a few random points, and the run goes on checking that nothing else comes up. Coordinates
outside J_i have random numbers when it is asked, not those of x: whoever depends on them shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from errorfeedback.core import Floats, Integers, Lifted, PerClient, PerColumn, Point, Sample, precision
from errorfeedback.keyed import sampled_rows
from errorfeedback.problems.estimated import Estimated, known_norms
from errorfeedback.problems.gradient_check import check_gradients, check_start
from errorfeedback.problems.own import OwnProblem, checked_point, owned_support

Answer: TypeAlias = tuple[float, Floats]
ClientFunction: TypeAlias = Callable[..., Answer]
"""w -> (f_i, its gradient); where the problem has rows also w, rows -> the same as a mean over these rows alone."""
POINTS = 3
"""Random points at which supports are probed."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Functions(OwnProblem):
    """Made by `problem`."""

    functions: Sequence[ClientFunction]
    """Each of the client's own coordinates."""
    rows: Integers | None = None
    """(n + 1,): client i has the rows rows[i]:rows[i+1] of all; None where functions know of no rows."""

    @property
    def samples(self) -> bool:
        return self.rows is not None

    def gradients(self, at: Point, out: Lifted, *, rows: Sample | None = None, values: PerClient | None = None) -> None:
        ends = self.support.indptr
        for i, (value, gradient) in enumerate(self._answers(at, rows)):
            out[ends[i] : ends[i + 1]] = gradient
            if values is not None:
                values[i] = value

    def values(self, at: Point) -> PerClient:
        return PerClient(np.array([value for value, _ in self._answers(at, None)]))

    def _answers(self, at: Point, rows: Sample | None) -> Iterator[Answer]:
        own, ends = at.on(self.support.gather), self.support.indptr
        chosen = [()] * self.n if rows is None else self._chosen(rows)
        for i, f in enumerate(self.functions):
            w = own[ends[i] : ends[i + 1]].copy()
            yield checked_answer(f(w, *chosen[i]), self.support.first + i, len(w), self.dtype)

    def _chosen(self, sample: Sample) -> list[tuple[Integers]]:
        """The rows of a sample, numbered from 0 for every client."""
        if self.rows is None:
            raise ValueError(
                "these functions know of no rows to take a sample of; give ef.problem(..., rows=[rows of every client]) and "
                "functions f(w, rows) besides f(w)"
            )
        chosen, ends = sampled_rows(sample, self.rows, self.support.first)
        return [(chosen[ends[i] : ends[i + 1]] - self.rows[i],) for i in range(self.n)]

    def shard(self, lo: int, hi: int) -> Functions:
        return replace(
            self,
            support=self.support.shard(lo, hi),
            functions=self.functions[lo:hi],
            rows=None if self.rows is None else self.rows[lo : hi + 1] - self.rows[lo],
            known=None if self.known is None else self.known.shard(lo, hi),
        )

    def __str__(self) -> str:
        return f"functions of your own: {super().__str__()}"


@dataclass(frozen=True, eq=False)
class FunctionOfAll:
    """A function of x as one of x on J_i; a gradient elsewhere is an error."""

    function: ClientFunction
    client: int
    owned: Integers
    elsewhere: PerColumn

    def __call__(self, w: Floats, *rows: Integers) -> Answer:
        x = self.elsewhere.astype(w.dtype)
        x[self.owned] = w
        value, gradient = checked_answer(self.function(x, *rows), self.client, len(x), w.dtype)
        outside = gradient != 0
        outside[self.owned] = False
        if outside.any() and np.isfinite(value):
            j = int(np.flatnonzero(outside)[0])
            raise ValueError(
                f"client {self.client}: the gradient at coordinate {j} is {gradient[j]:.6g}, but probing found no "
                f"dependence on it (J_{self.client} has {len(self.owned)} features); give supports=, or more points="
            )
        return value, gradient[self.owned]


def problem(
    functions: Sequence[ClientFunction],
    supports: Sequence[ArrayLike] | None = None,
    *,
    d: int,
    rows: Sequence[int] | None = None,
    x0: ArrayLike | None = None,
    lower_bound: float = -inf,
    smoothness: ArrayLike | Estimated | None = None,
    check: bool = True,
    points: int = POINTS,
    seed: int = 0,
    dtype: DTypeLike = np.float64,
) -> Functions:
    """A problem of `d` features from one function per client, `functions`: x -> (value, gradient).

    `supports`: J_i of every client, ascending; then a function takes x on J_i. Without, it takes x, and J_i is probed at
    `points` random points around x0. `rows`: how many rows every client has, where its function also takes the numbers of
    some of them. `x0`: where runs start (zeros). `lower_bound`: what f never goes below, where that is known. `smoothness`:
    every client's L_i, or `ef.Estimated()`. `check`: gradients are compared with differences of values around x0.
    `seed`: of both. `dtype`: precision of memory and messages.

    >>> f = problem([lambda w: (float(w @ w), 2 * w)] * 2, [[0, 1], [1]], d=2, x0=[1.0, 3.0])
    >>> f.value(f.x0), f.gradient(f.x0).tolist()
    (9.5, [1.0, 6.0])
    """
    if isinstance(d, bool) or not isinstance(d, (int, np.integer)) or d < 1:
        raise ValueError(f"d = {d!r}; it must be a whole number of features of at least 1")
    _check_functions(functions, supports, rows)
    kind, start = precision(dtype), checked_point("x0", x0, d)
    if supports is None:
        supports = _probed(functions, start, points, seed, kind)
        elsewhere = start + np.random.default_rng([seed, 1]).standard_normal(d)
        pairs = zip(functions, supports, strict=True)
        functions = [FunctionOfAll(f, i, np.asarray(J), elsewhere) for i, (f, J) in enumerate(pairs)]
    support, columns = owned_support(supports, d)
    made = Functions(
        support=support,
        columns=columns,
        width=d,
        dtype=kind,
        first_point=start,
        floor=float(lower_bound),
        functions=functions,
        rows=None if rows is None else np.concatenate([[0], np.cumsum(rows)]),
    )
    check_start(made)
    if check:
        check_gradients(made, seed=seed)
    return replace(made, known=known_norms(made, smoothness, seed=seed))


def _check_functions(
    functions: Sequence[ClientFunction], supports: Sequence[ArrayLike] | None, rows: Sequence[int] | None
) -> None:
    if not len(functions):
        raise ValueError("there are no functions; give one per client")
    for i, f in enumerate(functions):
        if not callable(f):
            raise ValueError(f"functions[{i}] is {f!r}, which cannot be called")
    for name, each in (("supports", supports), ("rows", rows)):
        if each is not None and len(each) != len(functions):
            raise ValueError(f"{len(each)} {name} for {len(functions)} functions; give one per client")
    for i, count in enumerate(rows or ()):
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
            raise ValueError(f"rows[{i}] = {count!r}; every client needs a whole number of rows of at least 1")


def _probed(
    functions: Sequence[ClientFunction], start: PerColumn, points: int, seed: int, dtype: np.dtype[Any]
) -> list[Integers]:
    """Where every client's gradient is not zero at some of a few random points."""
    if points < 1:
        raise ValueError(f"points = {points}; supports are probed at 1 point at least")
    draw = np.random.default_rng([seed, 0])
    owned = np.zeros((len(functions), len(start)), dtype=bool)
    for _ in range(points):
        x = (start + draw.standard_normal(len(start))).astype(dtype)
        for i, f in enumerate(functions):
            owned[i] |= checked_answer(f(x.copy()), i, len(x), dtype)[1] != 0
    if not owned.any(axis=1).all():
        i = int(np.argmin(owned.any(axis=1)))
        raise ValueError(f"client {i}: its gradient is zero at all {points} probed points, so it owns no feature; drop it")
    return [np.flatnonzero(each) for each in owned]


def checked_answer(answer: Any, client: int, size: int, dtype: np.dtype[Any]) -> Answer:
    """(value, gradient), where it is that; a step too long may make the value infinite, but not the gradient alone."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise ValueError(f"client {client}: its function gave {answer!r:.60}; it must give a pair, (value, gradient)")
    value, gradient = np.asarray(answer[0]), np.asarray(answer[1])
    if value.size != 1 or value.dtype.kind not in "fiu":
        raise ValueError(f"client {client}: the value is {answer[0]!r:.60}; it must be one real number")
    if gradient.shape != (size,):
        raise ValueError(
            f"client {client}: the gradient has shape {gradient.shape}; it needs ({size},), as its argument has"
        )
    if gradient.dtype != dtype:
        raise ValueError(
            f"client {client}: the gradient is of {gradient.dtype}, but the problem of {dtype}; give an array of that, or "
            "ef.problem(..., dtype=) where all functions are of another precision"
        )
    number = float(value.reshape(()))
    if np.isfinite(number) and not np.isfinite(gradient).all():
        j = int(np.flatnonzero(~np.isfinite(gradient))[0])
        raise ValueError(f"client {client}: the value is {number:.6g}, but the gradient's entry {j} is {gradient[j]}")
    return number, gradient
