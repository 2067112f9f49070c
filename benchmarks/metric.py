"""The power of the metric (`problems.scaling`): rounds and bytes to a relative gap of 1e-3, as `train` runs, with the data
as they are (0), half way (1/2), with all features brought to the same curvature (1), and by density, as `train` chooses.
docs/theory.md, section 16.

    ERRORFEEDBACK_DATA=... python benchmarks/metric.py [--data a9a rcv1] [--seed 0]
"""

from __future__ import annotations

import argparse

from racing.data import DATA, problem
from racing.objective import Objective
from racing.ours import There, as_problem

import errorfeedback as ef
from errorfeedback.planner.contestants import TOLERANCE
from errorfeedback.planner.recipe import few_bits

POWERS = {"0": 1e-9, "1/2": 0.5, "1": 1.0, "ours": None}
"""A scale is a power of 2^(1/4): with 1e-9 it is the same for all."""
GAP, MOST = 1e-3, 500


def needed(objective: Objective, power: float | None) -> tuple[int, float]:
    """Exchanges, and kB up and down per client."""
    scaled, prox = as_problem(objective, power=power, l2=objective.l2)
    recipe = few_bits(scaled, None, TOLERANCE)
    run = ef.solve(
        scaled,
        recipe.method,
        recipe.stepsize,
        direction=recipe.direction,
        downlink=recipe.downlink,
        rounds=MOST,
        prox=prox,
        stop=[There(scaled, prox, objective.level(GAP))],
    )
    bits = run.history["uplink_bits"][-1] + run.history["downlink_bits"][-1]
    return run.rounds + 1, float(bits) / 8e3 / objective.n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", nargs="+", choices=DATA, default=[name for name, entry in DATA.items() if not entry.by_name]
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"| data | rounds: {' | '.join(POWERS)} | ours against the best of these | kB: {' | '.join(POWERS)} |")
    print("|---" * (2 + 2 * len(POWERS)) + "|", flush=True)
    for name in options.data:
        objective = problem(name, seed=options.seed)
        rounds, kB = zip(*(needed(objective, power) for power in POWERS.values()), strict=True)
        cells = [*rounds, f"{rounds[-1] / min(rounds[:-1]):.2f}", *(f"{each:.3g}" for each in kB)]
        print(f"| {name} | {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main()
