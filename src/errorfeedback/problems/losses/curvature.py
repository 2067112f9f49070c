"""Does a loss keep within the curvature that it claims? Every theorem's step is as long as that number lets it be."""

from __future__ import annotations

from math import isfinite

import numpy as np

from errorfeedback.core import Floats, PerRow
from errorfeedback.problems.losses.base import Loss

GRID = np.concatenate([-(2.0 ** np.arange(7, -7, -0.5)), [0.0], 2.0 ** np.arange(-6.5, 7.5, 0.5)])
"""Predictions at which the derivative is looked at, for a few targets."""
TARGETS = 9
SLACK = 1e-6
FAR_BELOW = -1e3


def check_curvature(loss: Loss, b: PerRow) -> None:
    """Refuse a loss whose derivative grows faster between two predictions than its curvature says: the mean value theorem
    has no other explanation for it. Of several outputs, two move apart while the others stay far below.

    >>> from errorfeedback.problems.losses.logistic import Logistic
    >>> check_curvature(Logistic(), np.array([-1.0, 1.0]))
    >>> check_curvature(Logistic(curvature=0.1), np.array([-1.0, 1.0]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: Logistic claims a curvature of at most 0.1, but its derivative grows by 0.249997 per unit between z = ...
    """
    if not isfinite(loss.curvature) or not len(b):
        return
    z = GRID if loss.outputs == 1 else _apart(loss.outputs)
    width = _lengths(np.diff(z, axis=0))
    for target in np.unique(np.quantile(b, np.linspace(0, 1, TARGETS), method="nearest")):
        slopes = np.empty_like(z)
        with np.errstate(over="ignore", invalid="ignore"):
            loss.slopes(z.copy(), np.full_like(GRID, target), np.ones_like(GRID), slopes)
            growth = _lengths(np.diff(slopes, axis=0)) / width
        rounding = 8 * np.finfo(np.float64).eps * np.abs(slopes).max() / width
        wrong = np.flatnonzero(~(growth <= loss.curvature * (1 + SLACK) + rounding))
        if len(wrong):
            k = wrong[np.argmax(growth[wrong])]
            raise ValueError(
                f"{type(loss).__name__} claims a curvature of at most {loss.curvature:g}, but its derivative grows by "
                f"{growth[k]:.6g} per unit between z = {GRID[k]:.6g} and z = {GRID[k + 1]:.6g} (target {target:g}); "
                "give the true bound, or curvature=inf where there is none"
            )


def _apart(outputs: int) -> Floats:
    """(points, outputs): the first two move apart along the grid."""
    z = np.full((len(GRID), outputs), FAR_BELOW)
    z[:, 0], z[:, 1] = GRID, -GRID
    return z


def _lengths(steps: Floats) -> Floats:
    return steps if steps.ndim == 1 else np.asarray(np.linalg.norm(steps, axis=1))
