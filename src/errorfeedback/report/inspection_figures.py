"""What the planner draws: how rare the features are, who owns what, and the cost of the plans."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from errorfeedback.core import Floats
from errorfeedback.planner.inspection import Inspection
from errorfeedback.planner.plan import Plan
from errorfeedback.plots.figure import Axis, Bars, Curve, Figure, Heatmap, Lines

LEVEL = {"exact": "EF21 + exact", "few bits": "EF21, few bits"}
"""Kinds of which the cheapest plan is a level line, whatever its K."""


def rarity(seen: Inspection) -> Figure:
    """Histograms of |I_j| and |J_i|, and the sparsity pattern (figure 5)."""
    c = seen.census
    whole = seen.pattern.shape == (c.n, c.d)
    pattern = Heatmap(
        "who owns what",
        seen.pattern.astype(bool) if whole else seen.pattern,
        rows="client" if whole else "clients (grouped)",
        columns="feature" if whole else "features (grouped)",
        legend="share owned",
    )
    return Figure(
        "rarity",
        [
            Bars("clients per feature, |I_j|", list(c.rarity), {"features": list(c.rarity.values())}, Axis("features")),
            Bars("features per client, |J_i|", list(c.holdings), {"clients": list(c.holdings.values())}, Axis("clients")),
            pattern,
        ],
        caption=f"c = {c.c} of n = {c.n} clients share the most common feature; the largest client has r = {c.r} of {c.d}.",
    )


def promises(seen: Inspection) -> Figure:
    """What the theorems promise for DGD, every few-bit plan and the best of every other kind: bytes up and down, rounds."""
    best = seen.by_method()
    kinds = {plan.kind: plan for plan in reversed(best)}
    shown = [plan for plan in best if plan.kind == "few bits" or plan is kinds[plan.kind]]
    labels = [plan.wherever_it_starts.removeprefix("EF21 ") for plan in shown]
    sent = {"up": [plan.up_bits / 8e6 for plan in shown], "down": [plan.down_bits / 8e6 for plan in shown]}
    return Figure(
        "promises",
        [
            Bars("bytes per client", labels, sent, Axis("MB")),
            Bars("rounds", labels, {"rounds": [plan.rounds for plan in shown]}, Axis("rounds")),
        ],
        caption=f"To {seen.epsilon:g} of ||grad f(0)||^2 by the theorems. Everything but DGD and MARINA is EF21.",
    )


def costs(seen: Inspection) -> Figure:
    """Bytes up and down and rounds over K: a curve per rule of EF21 and for MARINA with RandK; what has no K is level."""
    curves: dict[str, list[Plan]] = {}
    for plan in seen.plans:
        if plan.kind in LEVEL:
            curves.setdefault(LEVEL[plan.kind], [plan])
        elif plan.k is None:
            curves.setdefault(plan.method, [plan])
        else:
            curves.setdefault(f"EF21 {plan.rule}" if plan.error_feedback else "MARINA RandK", []).append(plan)
    levels = [plan.k for plan in seen.plans if plan.k is not None and not plan.exact_features]
    ends = np.array([min(levels, default=1), max(levels, default=1)], dtype=np.float64)
    return Figure(
        "costs",
        [
            Lines("up and down per client", _curves(curves, ends, lambda plan: plan.total_bits / 8e6), Axis("MB", log=True)),
            Lines("rounds", _curves(curves, ends, lambda plan: plan.rounds), Axis("rounds", log=True)),
        ],
        {"K": Axis("K, numbers per message", log=True)},
        caption=f"To {seen.epsilon:g} of ||grad f(0)||^2 by the theorems. Level lines: methods without a K.",
    )


def _curves(families: dict[str, list[Plan]], ends: Floats, y: Callable[[Plan], float]) -> list[Curve]:
    """The curves before the level lines; those are dotted."""
    curves, level = [], []
    for name, plans in sorted(families.items()):
        if plans[0].k is None or plans[0].kind in LEVEL:
            level.append((name, ends, np.full(2, y(plans[0]), dtype=np.float64)))
        else:
            ordered = sorted(plans, key=lambda plan: plan.k or 0)
            k = np.array([plan.k for plan in ordered], dtype=np.float64)
            curves.append((name, k, np.array([y(plan) for plan in ordered], dtype=np.float64)))
    solid = [Curve(name, {"K": k}, v, colour=n, dash=(0, 1, 3)[n % 3]) for n, (name, k, v) in enumerate(curves)]
    return solid + [Curve(name, {"K": k}, v, colour=n, dash=2) for n, (name, k, v) in enumerate(level)]
