"""Sparse models: what `train --l1` does by itself against proximal gradient, FISTA and OWL-QN in full precision, and against
the first-order steps that it took before: rounds, and kB up and down per client, to relative gaps of 1e-3 and 1e-5.

    ERRORFEEDBACK_DATA=... python benchmarks/l1.py [--data a9a w5a] [--l1 1e-3 1e-4] [--seeds 1 2]

Peers have the best of their steps and metrics in hindsight, each cell its own, and send 8 bytes a number (`racing.books`).
We have what `train` chooses, for fewest bytes or for a link of 1M/10M/50ms. Ratios are ours over the best of the three
peers', medians over the seeds; rows are dealt to 100 clients (a9a: 300). Settings were chosen on seed 0.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
from racing.books import LINKS, Curve
from racing.data import DATA, problem
from racing.objective import Objective
from racing.ours import There, as_problem, curve_of
from racing.owl_qn import owl_qn
from racing.proximal_steps import fista, proximal_gradient
from racing.sparse_objective import SparseObjective, sparse_objective

import errorfeedback as ef
from errorfeedback.planner.contestants import TOLERANCE
from errorfeedback.planner.recipe import Recipe, few_bits

LEVELS = (1e-3, 1e-5)
SETS = ("phishing", "a9a", "mushrooms", "w5a", "rcv1", "news20")
MOST, LONGER = 1000, 4000
LINK = LINKS[0]
Made = Callable[[SparseObjective], Recipe]


def chosen(objective: SparseObjective, linked: bool) -> Recipe:
    """What `train` does by itself."""
    scaled, _ = as_problem(objective, power=None)
    networks = [ef.Network(LINK.up, LINK.down, LINK.latency)] * objective.n if linked else None
    return few_bits(scaled, networks, TOLERANCE, None, ef.ElasticNet(objective.l1))


def before(objective: SparseObjective) -> Recipe:
    """What it did until proximal steps were there."""
    method = ef.EF21(ef.FittedAnswer(), start="zero")
    return Recipe(method, ef.Automatic(), ef.Steepest(), ef.Changed(), "first-order steps")


def run_of(make: Made, objective: SparseObjective, target: float, most: int) -> dict[str, Curve]:
    made, _ = as_problem(objective, power=None)
    prox, recipe = ef.ElasticNet(objective.l1 * made.scale), make(objective)
    run = ef.solve(
        made,
        recipe.method,
        recipe.stepsize,
        direction=recipe.direction,
        downlink=recipe.downlink,
        rounds=most,
        prox=prox,
        stop=[There(made, prox, target)],
    )
    sizes = objective.sizes.astype(np.float64)
    return {"": curve_of(run, sizes, sizes, sizes)}


PEERS: dict[str, Callable[[SparseObjective, float, int], dict[str, Curve]]] = {
    "proximal gradient": proximal_gradient,
    "FISTA": fista,
    "OWL-QN": owl_qn,
}
RUNS = {
    "ours": (partial(run_of, partial(chosen, linked=False)), LONGER),
    "ours, link": (partial(run_of, partial(chosen, linked=True)), LONGER),
    "first-order": (partial(run_of, before), LONGER),
    **{name: (run, MOST) for name, run in PEERS.items()},
}
QUANTITIES: dict[str, Callable[[Curve], np.ndarray]] = {
    "rounds": lambda curve: curve.exchanges,
    "kB": lambda curve: curve.total / 1e3,
    "s": lambda curve: curve.seconds(LINK),
}


def needed(curves: dict[str, Curve], f: float, quantity: str) -> float:
    """The best of the settings; infinite where none gets there."""
    found = [float(QUANTITIES[quantity](curve)[at]) for curve in curves.values() if (at := curve.first(f)) is not None]
    return min(found, default=np.inf)


def costs(rows: Objective, l1: float) -> dict[tuple[str, float, str], float]:
    """Of everybody, to every gap, in every quantity."""
    objective = sparse_objective(rows, l1)
    out = {}
    for name, (run, most) in RUNS.items():
        curves = run(objective, objective.level(min(LEVELS)), most)
        for gap in LEVELS:
            out |= {(name, gap, what): needed(curves, objective.level(gap), what) for what in QUANTITIES}
    return out


def line(found: dict[tuple[str, float, str], float], gap: float) -> list[str]:
    """A row of the table: rounds and kB of all, and the ratios."""
    names = [name for name in RUNS if name != "ours, link"]
    cells = [f"{found[name, gap, 'rounds']:.0f}, {found[name, gap, 'kB']:.3g}" for name in names]
    peer = {what: min(found[name, gap, what] for name in PEERS) for what in QUANTITIES}
    link = found["ours, link", gap, "s"], found["ours, link", gap, "rounds"]
    old = found["first-order", gap, "rounds"] / found["ours", gap, "rounds"]
    ratios = [found["ours", gap, "kB"] / peer["kB"], found["ours", gap, "kB"] / found["first-order", gap, "kB"]]
    return [*cells, *(f"{each:.3f}" for each in ratios), f"{old:.0f}", f"{link[1]:.0f}, {link[0] / peer['s']:.2f}"]


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--data", nargs="+", choices=DATA, default=list(SETS))
    words.add_argument("--l1", nargs="+", type=float, default=[1e-3, 1e-4])
    words.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    asked = words.parse_args()
    names = [name for name in RUNS if name != "ours, link"]
    heads = ["data, l1", "gap", *names, "kB over best peer's", "kB over first-order's", "times fewer rounds"]
    print("Rounds, kB:\n| " + " | ".join([*heads, f"on {LINK.name}: rounds, time over best peer's"]) + " |")
    print("|---" * (len(heads) + 1) + "|", flush=True)
    for name in asked.data:
        for l1 in asked.l1:
            runs = [costs(problem(name, seed=seed), l1) for seed in asked.seeds]
            middle = {key: float(np.median([run[key] for run in runs])) for key in runs[0]}
            for gap in LEVELS:
                print("| " + " | ".join([f"{name}, {l1:g}", f"{gap:g}", *line(middle, gap)]) + " |", flush=True)


if __name__ == "__main__":
    main()
