"""Where a direction's model is lowest beside a penalty with kinks,

    y = argmin <g, y - x> + (y - x)'B(y - x)/2 + sum_j l1_j |y_j|,

by coordinate descent: in turn every y_j goes to its minimum,

    y_j = shrink(y_j - slope_j / B_jj, l1_j / B_jj),    slope = g + B (y - x),    shrink(v, a) = sign(v) max(|v| - a, 0)

(Friedman, Hastie and Tibshirani 2010; for quasi-Newton models Scheinberg and Tang 2016). Only features that are not 0 or
whose slope exceeds l1_j can move at first; others join where their slope comes to exceed it. From sweep to sweep the fall
shrinks by about the same factor, so that what is left is known: it ends where that is at most `LEFT` of all.

The model is never above where it began, whatever is left: <g, s> + R(x + s) - R(x) <= -s'Bs/2 for s = y - x.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numba
import numpy as np

from errorfeedback.core import Floats, Integers, Model
from errorfeedback.sums import dot

LEFT = 1e-4
"""The share of the model's fall that may be left."""
SWEEPS, JOINS = 1000, 20
"""The most sweeps, and how often features may join."""


@dataclass(frozen=True, eq=False)
class Part:
    """B on some features: b I + left right'."""

    b: float
    left: Floats
    right: Floats

    @property
    def diagonal(self) -> Floats:
        return np.asarray(self.b + np.einsum("jk,jk->j", self.left, self.right))


class Curved(Protocol):
    """B."""

    def times(self, v: Floats) -> Floats: ...

    def on(self, some: Integers, d: int) -> Part: ...


def minimum(x: Model, g: Model, l1: Model, model: Curved) -> Floats:
    """y."""
    start = x.astype(np.float64)
    y, slopes, fall = start.copy(), g.astype(np.float64), 0.0
    moving = (y != 0) | (np.abs(slopes) > l1)
    for _ in range(JOINS):
        some = np.flatnonzero(moving)
        part = model.on(some, len(x))
        own = y[some]
        fallen = descend(slopes[some], l1[some], part.b, part.left, part.right, part.diagonal, fall, LEFT, own)
        y[some] = own
        fall += fallen
        slopes = g + model.times(y - start)
        joining = (np.abs(slopes) > l1) & ~moving
        if not joining.any() or fallen <= LEFT * fall:
            break
        moving |= joining
    return y


@numba.njit(cache=True, nogil=True)
def descend(
    slopes: Floats,
    l1: Floats,
    b: float,
    left: Floats,
    right: Floats,
    diagonal: Floats,
    before: float,
    share: float,
    y: Floats,
) -> float:
    """Move y, where the model has these slopes, in place; how far the model has fallen. `before`: how far it had."""
    start, shares = y.copy(), np.zeros(right.shape[1])
    fallen = last = 0.0
    for _ in range(SWEEPS):
        now = 0.0
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
                now -= change * (slope + 0.5 * h * change) + l1[j] * (abs(to) - abs(at))
                for k in range(len(shares)):
                    shares[k] += change * right[j, k]
                y[j] = to
        fallen += now
        if now <= 0.0 or now * now <= share * (before + fallen) * max(last - now, 0.0):
            break
        last = now
    return fallen
