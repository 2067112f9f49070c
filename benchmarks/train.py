"""Training without a step size to choose, against the best constant step chosen afterwards: the goals as tables in Markdown.

    ERRORFEEDBACK_DATA=... python benchmarks/train.py [--only real|synthetic|hostile|accuracy] [--problems 1000]

Bytes are per client, upwards, at the round that reaches the target, with indices, telemetry and the scaling exchange. The
closing exchange of two losses (16 bytes, once per run) comes after the last row and is not in them. The optimum is L-BFGS's.
All EF21 runs are Top1 from x = 0; grids are 2^k/L, and a run of a grid ends where it can no longer win.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

import errorfeedback as ef
from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.methods.base import Method
from errorfeedback.problems.base import Problem
from errorfeedback.stepsizes.base import StepSize

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from hostile import hostile

REAL = {"a9a": 60, "phishing": 100, "w5a": 200, "mushrooms": 15}
"""How many times fewer bytes than GD is the goal."""
CLIENTS = 300


class Reached(Exception):  # noqa: N818  (no error)
    """The target, at (round, bits up)."""


def reach(problem: Problem, method: Method, rule: StepSize, target: float, rounds: int) -> tuple[int, int] | None:
    """The first round with f at or below the target, and the bits up until then."""

    def watch(row: dict[str, float]) -> None:
        if row["f"] <= target:
            raise Reached(int(row["round"]), int(row["payload_bits"]))

    try:
        ef.solve(problem, method, rule, rounds=rounds, watch=watch)
    except Reached as found:
        return found.args
    return None


def best(problem: Problem, method: Method, powers: Iterable[int], target: float, rounds: int) -> tuple[int, int, int]:
    """The fewest rounds of the grid, their bits, and the power of two."""
    L = ef.analyse(problem).L
    winner = (rounds + 1, 0, 0)
    for k in powers:
        found = reach(problem, method, ef.Constant(2.0**k / L), target, winner[0] - 1)
        if found is not None:
            winner = (*found, k)
    return winner


def optimum(problem: Problem) -> float:
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30}
    x0 = np.zeros(problem.d)
    return float(minimize(lambda z: (problem.value(z), problem.gradient(z)), x0, jac=True, options=options).fun)


def real() -> None:
    print(
        "| data | target | GD's best | bytes | EF21's best constant | bytes | automatic | bytes | GD/automatic | goal ",
        end="",
    )
    print("| rounds/best | goal |\n|" + "---|" * 12)
    for name, goal in REAL.items():
        A, y = ef.load(name)
        problem = ef.scaled(ef.logistic(A, y, ef.Shuffled(CLIENTS), intercept=True))
        target = 1e-2 if name == "mushrooms" else optimum(problem) + 1e-3
        top1 = ef.EF21(ef.TopK(1))
        gd = best(problem, ef.DGD(), range(7), target, 2000)
        constant = best(problem, top1, range(-1, 11), target, 1000)
        auto = reach(problem, top1, ef.Automatic(), target, 1000)
        rounds, bits = auto if auto is not None else (np.inf, np.inf)
        limit = "at most 10 rounds" if name == "mushrooms" else "1.25"
        cells = [name, f"{target:.5g}", f"{gd[0]} rounds (2^{gd[2]}/L)", bytes_up(gd[1])]
        cells += [f"{constant[0]} (2^{constant[2]}/L)", bytes_up(constant[1]), str(rounds), bytes_up(bits)]
        cells += [f"{gd[1] / bits:.0f}", str(goal), f"{rounds / constant[0]:.2f}", limit]
        print("| " + " | ".join(cells) + " |", flush=True)


def bytes_up(bits: float) -> str:
    return f"{bits / 8 / CLIENTS:,.0f}"


def synthetic() -> None:
    print("| c/n | best constant step | automatic | ratio | goal |\n|" + "---|" * 5)
    for c in (5, 50, 90):
        problem = ef.synthetic(n=100, d=500, m=12, c=c)
        low, start = optimum(problem), problem.value(np.zeros(problem.d))
        target = low + 1e-4 * (start - low)
        constant = best(problem, ef.EF21(ef.TopK(1)), range(-5, 5), target, 3000)
        auto = reach(problem, ef.EF21(ef.TopK(1)), ef.Automatic(), target, 3000)
        rounds = auto[0] if auto is not None else np.inf
        print(
            f"| {c / 100} | {constant[0]} (2^{constant[2]}/L) | {rounds} | {rounds / constant[0]:.3f} | 1.15 |", flush=True
        )


def all_hostile(problems: int) -> None:
    diverged = above = 0
    for seed in range(problems):
        problem, method, x0, guess = hostile(seed)
        x = ef.solve(problem, method, ef.Automatic(guess=guess), rounds=200, every=200, x0=x0, metrics=False).x
        diverged += not np.isfinite(x).all()
        above += not problem.value(x) <= problem.value(x0)
    print("| random hostile problems | not finite | ended above their start |\n|---|---|---|")
    print(f"| {problems} | {diverged} | {above} |", flush=True)


def accuracy() -> None:
    (A, y), (T, z) = ef.load("a9a"), ef.load("a9a.t")
    print("| a9a, L2 | ours on a9a.t | scikit-learn | difference in points | rounds | bytes up |\n|" + "---|" * 6)
    for l2 in (1e-4, 1e-3):
        ours = EF21Classifier(n_clients=CLIENTS, l2=l2, max_iter=1000).fit(A, y)
        theirs = LogisticRegression(C=1 / (l2 * len(y)), tol=1e-8, max_iter=10_000).fit(A, y)
        a, b = 100 * ours.score(T, z), 100 * theirs.score(T, z)
        print(f"| {l2} | {a:.3f} | {b:.3f} | {a - b:+.3f} | {ours.n_iter_} | {ours.bytes_up_:,.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["real", "synthetic", "hostile", "accuracy"])
    parser.add_argument("--problems", type=int, default=1000)
    given = parser.parse_args()
    tables = {"real": real, "synthetic": synthetic, "hostile": lambda: all_hostile(given.problems), "accuracy": accuracy}
    for name, table in tables.items():
        if given.only in (None, name):
            print(f"\n## {name}\n")
            table()


if __name__ == "__main__":
    main()
