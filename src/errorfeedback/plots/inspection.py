"""What the planner draws: how rare the features are, who owns what, and the cost of every plan."""

from __future__ import annotations

from errorfeedback.planner.inspection import Inspection
from errorfeedback.plots.figure import Axis, Bars, Figure, Heatmap

SHOWN = 12
"""Plans in the drawing."""


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
    """Bits up per client of the cheapest plan of each method, and its rounds."""
    cheapest = {plan.method: plan for plan in reversed(seen.plans)}
    shown = sorted(cheapest.values(), key=lambda plan: plan.bits)[:SHOWN]
    labels = [plan.method for plan in shown]
    return Figure(
        "costs",
        [
            Bars("up per client to epsilon", labels, {"MB": [plan.bits / 8e6 for plan in shown]}, Axis("MB", log=True)),
            Bars("rounds to epsilon", labels, {"rounds": [plan.rounds for plan in shown]}, Axis("rounds", log=True)),
        ],
        caption=f"The cheapest rule of each method, by its theorem, to {seen.epsilon:g} of ||grad f(0)||^2.",
    )
