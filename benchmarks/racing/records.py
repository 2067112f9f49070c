"""A race as JSON: what was raced, what every method needed, and its curves, thinned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from racing.books import Curve
from racing.contest import BYTES, QUANTITIES, US, Outcome
from racing.objective import Objective

POINTS = 150
"""Of a curve, at most."""


def facts(objective: Objective) -> dict[str, float]:
    sizes = objective.sizes
    return {
        "clients": objective.n,
        "rows": objective.m,
        "features": objective.d,
        "nonzeros": int(objective.A.nnz),
        "mean |J_i|": float(sizes.mean()),
        "max |J_i|": int(sizes.max()),
        "f*": objective.optimum,
        "f(0)": objective.start,
    }


def of(objective: Objective, outcome: Outcome, levels: Iterable[float]) -> dict[str, Any]:
    """Needs by level and quantity (None where a method is not there), settings likewise, and the curves of winners."""
    found = {level: {q: outcome.needed(objective, level, q) for q in QUANTITIES} for level in levels}
    winners = {name for each in found.values() for need, name in each.values() if np.isfinite(need)}
    if outcome.method == US:
        winners = set(outcome.curves)
    if not winners and outcome.curves:
        winners = {min(outcome.curves, key=lambda name: outcome.curves[name].f.min())}
    return {
        "needs": {f"{level:g}": {q: _number(need) for q, (need, _) in each.items()} for level, each in found.items()},
        "settings": {f"{level:g}": {q: name for q, (_, name) in each.items()} for level, each in found.items()},
        "curves": {name: thinned(objective, outcome.curves[name]) for name in sorted(winners)},
        "processor seconds": round(outcome.seconds, 2),
    }


def thinned(objective: Objective, curve: Curve) -> dict[str, list[float]]:
    """Where the curve is lower than ever before, at most so many places."""
    lowest = np.minimum.accumulate(curve.f)
    places = np.flatnonzero(np.diff(lowest, prepend=np.inf) < 0)
    if len(places) > POINTS:
        places = places[np.unique(np.linspace(0, len(places) - 1, POINTS).astype(int))]
    gaps = objective.gaps(curve.f)
    columns = {"gap": gaps, "exchanges": curve.exchanges, "up": curve.up, "down": curve.down}
    columns |= {"slowest up": curve.slowest_up, "slowest down": curve.slowest_down}
    return {name: [float(f"{v:.7g}") for v in values[places]] for name, values in columns.items()}


def envelope(method: str, curves: dict[str, dict[str, list[float]]]) -> tuple[np.ndarray, np.ndarray]:
    """kB up and down, and the smallest gap that any setting has reached for them; ours is the run made for bytes."""
    chosen = [curves[BYTES]] if method == US else list(curves.values())
    kB = np.concatenate([np.add(curve["up"], curve["down"]) for curve in chosen]) / 1e3
    gap = np.concatenate([curve["gap"] for curve in chosen])
    order = np.lexsort((gap, kB))  # of several for the same bytes the lowest first
    kB, gap = kB[order], gap[order]
    lower = np.diff(np.minimum.accumulate(gap), prepend=np.inf) < 0
    return kB[lower], gap[lower]


def _number(need: float) -> float | None:
    return float(f"{need:.7g}") if np.isfinite(need) else None
