"""Settings chosen afterwards: all of a grid for a few exchanges, the better ones for more, the best to the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from racing.books import Curve

FIRST, KEPT = 5, 3
"""Exchanges that all get, and how many of the grid run to the end."""


def best_of(runs: Mapping[str, Callable[[int], Curve]], most: int, kept: int = KEPT) -> dict[str, Curve]:
    """The curves of all settings, of which those run on that stand lowest after 5 exchanges, and after 20."""
    curves: dict[str, Curve] = {name: run(min(FIRST, most)) for name, run in runs.items()}
    names = list(runs)
    for longer, places in ((4 * FIRST, 2 * kept), (most, kept)):
        names = sorted(names, key=lambda name: _lowest(curves[name]))[:places]
        curves |= {name: runs[name](min(longer, most)) for name in names}
    return curves


def _lowest(curve: Curve) -> float:
    return float(np.nanmin(curve.f)) if np.isfinite(curve.f).any() else np.inf
