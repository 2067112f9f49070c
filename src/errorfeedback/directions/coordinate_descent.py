"""Where a direction's model is lowest beside a penalty with kinks,

    y = argmin <g, y - x> + (y - x)'B(y - x)/2 + sum_j l1_j |y_j|,

by coordinate descent and Newton steps in turn. In a sweep every y_j goes to its minimum,

    y_j = shrink(y_j - slope_j / B_jj, l1_j / B_jj),    slope = g + B (y - x),    shrink(v, a) = sign(v) max(|v| - a, 0)

(Friedman, Hastie and Tibshirani 2010; for quasi-Newton models Scheinberg and Tang 2016), which finds out who is 0 and on
which side of 0 the others are, but creeps along valleys. With the signs given the model is a parabola; so then all that are
not 0 go towards its minimum, as far as the first of them stays on its side. Only features that are not 0, or whose slope
exceeds l1_j, take part at first; others join where their slope comes to exceed it. It ends where the sweeps after a whole
Newton step gain at most `LEFT` of all.

Where B is positive definite the model is never above where it began, whatever is left:
    <g, s> + R(x + s) - R(x) <= -s'Bs/2 for s = y - x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numba
import numpy as np

from errorfeedback.core import Floats, Integers, Model
from errorfeedback.sums import Vector, dot

LEFT = 1e-4
"""The share of the model's fall that a last sweep may gain."""
SWEEPS, FACES, TURNS, JOINS = 3, 10, 100, 20
"""Sweeps before Newton steps, the most of these from kink to kink, the most turns of both, and how often features join."""


@dataclass(frozen=True, eq=False)
class Part:
    """B on some features: b I + left right'."""

    b: float
    left: Floats
    right: Floats

    def times(self, v: Floats) -> Floats:
        return product(self.b, self.left, self.right, v)

    def solved(self, some: Integers, r: Floats) -> Floats:
        """B^-1 r on some of them (Sherman, Morrison and Woodbury); 0 where it cannot be told."""
        left, right = np.asarray(self.left[some]), np.asarray(self.right[some])
        middle, shares = narrowed(self.b, left, right, r)
        try:
            known = np.linalg.solve(middle, shares).astype(np.float64, copy=False)
        except np.linalg.LinAlgError:
            return np.zeros_like(r)
        return np.asarray((r - spread(left, known)) / self.b)


class DensePart(Part):
    """B on some features, whole."""

    def __init__(self, matrix: Floats) -> None:
        super().__init__(0.0, matrix, np.eye(len(matrix)))

    def solved(self, some: Integers, r: Floats) -> Floats:
        return solved_whole(self.left, some, r)


class Curved(Protocol):
    """B."""

    def forms(self, vectors: Sequence[Vector]) -> Floats: ...

    def times(self, v: Floats) -> Floats: ...

    def on(self, some: Integers, d: int) -> Part: ...


@dataclass(frozen=True, eq=False)
class Entries:
    """B, as a matrix."""

    matrix: Floats

    def forms(self, vectors: Sequence[Vector]) -> Floats:
        """v'Bv of all vectors."""
        return np.array([dot(v[:], self.times(v[:])) for v in vectors])

    def times(self, v: Floats) -> Floats:
        """B v."""
        return np.asarray(self.matrix @ v)

    def on(self, some: Integers, d: int) -> Part:
        return DensePart(self.matrix[np.ix_(some, some)])


def minimum(x: Model, g: Model, l1: Model, model: Curved) -> Floats:
    """y."""
    start = x.astype(np.float64)
    y, slopes, fall = start.copy(), g.astype(np.float64), 0.0
    moving = (y != 0) | (np.abs(slopes) > l1)
    for _ in range(JOINS):
        some = np.flatnonzero(moving)
        y[some], fallen = _settled(model.on(some, len(x)), slopes[some], l1[some], y[some], fall)
        fall += fallen
        slopes = g + model.times(y - start)
        joining = (np.abs(slopes) > l1) & ~moving
        if not joining.any() or fallen <= LEFT * fall:
            break
        moving |= joining
    return y


def _settled(part: Part, slopes: Floats, l1: Floats, y: Floats, before: float) -> tuple[Floats, float]:
    """y on some features where the model has these slopes, and how far it has fallen by that."""
    diagonal = part.b + np.einsum("jk,jk->j", part.left, part.right)
    fall, whole = 0.0, False
    for _ in range(TURNS):
        at = y.copy()
        fallen = sweep(slopes, l1, part.b, part.left, part.right, diagonal, y)
        slopes, fall = slopes + part.times(y - at), fall + fallen
        if whole and fallen <= LEFT * (before + fall):
            break
        for _ in range(FACES):
            at = y.copy()
            fallen, whole = _newton(part, slopes, l1, y)
            slopes, fall = slopes + part.times(y - at), fall + fallen
            if whole or not fallen:
                break
    return y, fall


def _newton(part: Part, slopes: Floats, l1: Floats, y: Floats) -> tuple[float, bool]:
    """Move what is not 0 to its minimum with these signs, in place, or as far as all stay on their sides; how far the model
    has fallen, and whether that was all of the way."""
    some = np.flatnonzero(y)
    signs = np.sign(y[some])
    down = -(slopes[some] + l1[some] * signs)
    way = part.solved(some, down)
    slope = dot(down, way)
    if not 0.0 < slope < np.inf:
        return 0.0, not down.any()
    crossing = way * signs < 0
    reach = np.where(crossing, -y[some] / np.where(crossing, way, 1.0), np.inf)
    t = min(1.0, float(reach.min()))
    y[some] = np.where(reach <= t, 0.0, y[some] + t * way)
    return (t - 0.5 * t * t) * slope, t == 1.0


@numba.njit(cache=True, nogil=True)
def sweep(slopes: Floats, l1: Floats, b: float, left: Floats, right: Floats, diagonal: Floats, y: Floats) -> float:
    """Some sweeps from y, where the model has these slopes, in place; how far it has fallen."""
    start, shares, fallen = y.copy(), np.zeros(right.shape[1]), 0.0
    for _ in range(SWEEPS):
        for j in range(len(y)):
            h, at = diagonal[j], y[j]
            if not h > 0.0:  # rounding has left no curvature
                continue
            slope = slopes[j] + b * (at - start[j]) + dot(left[j], shares)
            aim = at - slope / h
            size = abs(aim) - l1[j] / h
            to = np.copysign(size, aim) if size > 0.0 else 0.0
            if to != at:
                change = to - at
                fallen -= change * (slope + 0.5 * h * change) + l1[j] * (abs(to) - abs(at))
                for k in range(len(shares)):
                    shares[k] += change * right[j, k]
                y[j] = to
    return fallen


@numba.njit(cache=True, nogil=True)
def product(b: float, left: Floats, right: Floats, v: Floats) -> Floats:
    """(b I + left right') v."""
    shares = np.zeros(right.shape[1])
    for j in range(len(v)):
        for k in range(len(shares)):
            shares[k] += v[j] * right[j, k]
    return b * v + spread(left, shares)


@numba.njit(cache=True, nogil=True)
def spread(left: Floats, shares: Floats) -> Floats:
    """left shares."""
    out = np.empty(len(left))
    for j in range(len(left)):
        out[j] = dot(left[j], shares)
    return out


@numba.njit(cache=True, nogil=True)
def narrowed(b: float, left: Floats, right: Floats, r: Floats) -> tuple[Floats, Floats]:
    """b I + right' left, and right' r."""
    middle, shares = b * np.eye(right.shape[1]), np.zeros(right.shape[1])
    for j in range(len(r)):
        for k in range(len(shares)):
            shares[k] += right[j, k] * r[j]
            for m in range(len(shares)):
                middle[k, m] += right[j, k] * left[j, m]
    return middle, shares


@numba.njit(cache=True, nogil=True)
def solved_whole(matrix: Floats, some: Integers, r: Floats) -> Floats:
    """matrix^-1 r on some features, by Cholesky's factors; 0 where it is not positive definite. (LAPACK would wake up a pool
    of threads for it, again and again.)"""
    n = len(some)
    root, out = np.empty((n, n)), r.copy()
    for i in range(n):
        for j in range(i):
            root[i, j] = (matrix[some[i], some[j]] - dot(root[i, :j], root[j, :j])) / root[j, j]
        left = matrix[some[i], some[i]] - dot(root[i, :i], root[i, :i])
        if not left > 0.0:
            return np.zeros(n)
        root[i, i] = np.sqrt(left)
        out[i] = (out[i] - dot(root[i, :i], out[:i])) / root[i, i]
    for i in range(n - 1, -1, -1):
        out[i] /= root[i, i]
        for j in range(i):
            out[j] -= out[i] * root[i, j]
    return out
