"""What the planner draws: how rare the features are, who owns what, and the cost of the plans."""

from __future__ import annotations

import numpy as np

from errorfeedback.planner.inspection import Inspection
from errorfeedback.planner.plan import Plan
from errorfeedback.plots.figure import Axis, Bars, Curve, Figure, Heatmap, Lines


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


def costs(seen: Inspection) -> Figure:
    """Bits and rounds over K: a curve per rule of EF21 and for MARINA with RandK; what has no K is a level line."""
    curves: dict[str, list[Plan]] = {}
    marks: dict[str, Plan] = {}
    for plan in seen.plans:
        if plan.k is None or plan.exact_features:
            marks.setdefault("EF21 + exact" if plan.exact_features else plan.method, plan)
        else:
            curves.setdefault(f"EF21 {plan.rule}" if plan.error_feedback else "MARINA RandK", []).append(plan)
    families = {name: sorted(plans, key=lambda plan: plan.k or 0) for name, plans in sorted(curves.items())}
    bits = {name: [plan.bits / 8e6 for plan in plans] for name, plans in families.items()}
    rounds = {name: [float(plan.rounds) for plan in plans] for name, plans in families.items()}
    k = {name: np.array([float(plan.k or 0) for plan in plans]) for name, plans in families.items()}
    return Figure(
        "costs",
        [
            Lines("up per client", _curves(k, bits), Axis("MB", log=True), {m: p.bits / 8e6 for m, p in marks.items()}),
            Lines("rounds", _curves(k, rounds), Axis("rounds", log=True), {m: float(p.rounds) for m, p in marks.items()}),
        ],
        {"K": Axis("K, numbers per message", log=True)},
        caption=f"To {seen.epsilon:g} of ||grad f(0)||^2 by the theorems.",
    )


def _curves(k: dict[str, np.ndarray], y: dict[str, list[float]]) -> list[Curve]:
    return [Curve(name, {"K": k[name]}, np.array(y[name]), colour=n, dash=n % 4) for n, name in enumerate(y)]
