"""Training without a step size to choose, against the best constant step chosen afterwards: the goals as tables in Markdown.

    ERRORFEEDBACK_DATA=... python benchmarks/train.py [--only real|synthetic|held-out|hostile|accuracy] [--problems 1000]

Bytes are per client, upwards, at the round that reaches the target: values, indices, telemetry, the scaling exchange, the
first guess, and the closing exchange of a run that ends there. The optimum is L-BFGS's. All runs start at x = 0; EF21 sends
Top1 where no K is named; grids are 2^k/L, and a run of a grid ends where it can no longer win.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

import errorfeedback as ef
from errorfeedback.estimators.classifier import EF21Classifier
from errorfeedback.methods.base import Method
from errorfeedback.problems.base import Problem
from errorfeedback.runtime.stopping import Progress, Stop
from errorfeedback.stepsizes.base import StepSize

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from hostile import hostile

REAL = {"a9a": 60, "phishing": 100, "w5a": 200, "mushrooms": 15}
"""How many times fewer bytes than GD is the goal."""
CLIENTS = 300


SEEDS = range(11, 16)
"""Partitions and synthetic problems that no setting of the rule was ever chosen on."""


@dataclass(frozen=True)
class There(Stop):
    """Ends a run where the objective is at or below the target."""

    problem: Problem
    target: float

    def next(self, state: None, seen: Progress) -> tuple[str, None]:
        return "there" if self.problem.value(seen.x) <= self.target else "", None


def reach(problem: Problem, method: Method, rule: StepSize, target: float, rounds: int) -> tuple[int, int] | None:
    """The first round with f at or below the target, and the bits up of the run that ends there (payload: see the head)."""
    there = There(problem, target)
    run = ef.solve(problem, method, rule, rounds=rounds, every=rounds + 1, metrics=False, stop=[there])
    reached = run.stopped == "there" or problem.value(run.x) <= target  # in the last round
    return (run.rounds, int(run.history["payload_bits"][-1])) if reached else None


def best(problem: Problem, method: Method, powers: Sequence[int], target: float, rounds: int) -> tuple[int, float, int]:
    """The fewest rounds of the grid, their bits, and the power of two; infinitely many bits where none gets there."""
    L = ef.analyse(problem).L
    winner = (rounds + 1, np.inf, 0)
    middle = np.mean(list(powers))
    for k in sorted(powers, key=lambda k: abs(k - middle)):  # the extremes last: they lose early
        found = reach(problem, method, ef.Constant(2.0**k / L), target, winner[0] - 1)
        if found is not None:
            winner = (*found, k)
    return winner


def optimum(problem: Problem) -> float:
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-13, "gtol": 1e-8, "maxcor": 30}
    x0 = np.zeros(problem.d)
    found = minimize(lambda z: (problem.value(z), problem.gradient(z)), x0, jac=True, method="L-BFGS-B", options=options)
    return float(found.fun)


def real_problem(name: str, seed: int = 0) -> tuple[Problem, float]:
    """A data set as the goals have it, and the loss to reach."""
    A, y = ef.load(name)
    problem = ef.scaled(ef.logistic(A, y, ef.Shuffled(CLIENTS, seed), intercept=True))
    return problem, 1e-2 if name == "mushrooms" else optimum(problem) + 1e-3


def synthetic_problem(c: int, seed: int = 0) -> tuple[Problem, float]:
    """A problem of the paper's generator, and 1e-4 of the way from its optimum to its start."""
    problem = ef.synthetic(n=100, d=500, m=12, c=c, seed=seed)
    low, start = optimum(problem), problem.value(np.zeros(problem.d))
    return problem, low + 1e-4 * (start - low)


def real() -> None:
    header("data, target, GD's best, bytes, best constant, bytes, automatic, bytes, GD/automatic, goal, rounds/best, goal")
    for name, goal in REAL.items():
        problem, target = real_problem(name)
        top1 = ef.EF21(ef.TopK(1))
        gd = best(problem, ef.DGD(), range(7), target, 2000)
        constant = best(problem, top1, range(-1, 11), target, 1000)
        rounds, bits = automatic(problem, 1, target, 1000)
        limit = "at most 10 rounds" if name == "mushrooms" else "1.25"
        cells = [name, f"{target:.5g}", f"{gd[0]} rounds (2^{gd[2]}/L)", bytes_up(gd[1])]
        cells += [f"{constant[0]} (2^{constant[2]}/L)", bytes_up(constant[1]), str(rounds), bytes_up(bits)]
        cells += [f"{gd[1] / bits:.1f}", str(goal), f"{rounds / constant[0]:.2f}", limit]
        line(cells)


def automatic(problem: Problem, k: int, target: float, most: int) -> tuple[float, float]:
    found = reach(problem, ef.EF21(ef.TopK(k)), ef.Automatic(), target, most)
    return (np.inf, np.inf) if found is None else found


def bytes_up(bits: float) -> str:
    return f"{bits / 8 / CLIENTS:,.0f}"


def synthetic() -> None:
    header("c/n, best constant step, automatic, ratio, goal")
    for c in (5, 50, 90):
        problem, target = synthetic_problem(c)
        constant = best(problem, ef.EF21(ef.TopK(1)), range(-5, 5), target, 3000)
        rounds, _ = automatic(problem, 1, target, 3000)
        line([f"{c / 100}", f"{constant[0]} (2^{constant[2]}/L)", f"{rounds}", f"{rounds / constant[0]:.3f}", "1.15"])


def held_out() -> None:
    """The same on other partitions and seeds, and for more numbers per round: medians and worst cases."""
    header("problem, K, automatic's rounds, worst, rounds/best constant, worst, goal, GD/automatic in bytes, worst, goal")
    for name, goal in REAL.items():
        found = [real_problem(name, seed) for seed in SEEDS]
        gd = [best(problem, ef.DGD(), range(7), target, 2000)[1] for problem, target in found]
        for k in (1, 2, 4):
            runs = [automatic(problem, k, target, 1000) for problem, target in found]
            grid = [best(problem, ef.EF21(ef.TopK(k)), range(-1, 11), target, 1000)[0] for problem, target in found]
            limit = "at most 10 rounds" if name == "mushrooms" else "1.25"
            less = [up / bits for up, (_, bits) in zip(gd, runs, strict=True)]
            goals = (limit, str(goal)) if k == 1 else ("", "")
            spread = [f"{np.median(less):.1f}", f"{min(less):.1f}"]
            line([name, str(k), *ratios([r for r, _ in runs], grid), goals[0], *spread, goals[1]])
    for c in (5, 50, 90):
        found = [synthetic_problem(c, seed) for seed in SEEDS]
        for k in (1, 4):
            rounds = [automatic(problem, k, target, 3000)[0] for problem, target in found]
            grid = [best(problem, ef.EF21(ef.TopK(k)), range(-5, 5), target, 3000)[0] for problem, target in found]
            line([f"c/n = {c / 100}", str(k), *ratios(rounds, grid), "1.15" if k == 1 else "", "", "", ""])


def ratios(rounds: list[float], grid: list[int]) -> list[str]:
    """Rounds and rounds/best, each with its median and its worst."""
    share = np.divide(rounds, grid)
    return [f"{np.median(rounds):g}", f"{max(rounds):g}", f"{np.median(share):.2f}", f"{max(share):.2f}"]


def header(names: str) -> None:
    columns = names.split(", ")
    line(columns)
    print("|" + "---|" * len(columns), flush=True)


def line(cells: list[str]) -> None:
    print("| " + " | ".join(cells) + " |", flush=True)


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
    parser.add_argument("--only", choices=["real", "synthetic", "held-out", "hostile", "accuracy"])
    parser.add_argument("--problems", type=int, default=1000)
    given = parser.parse_args()
    tables = {
        "real": real,
        "synthetic": synthetic,
        "held-out": held_out,
        "hostile": lambda: all_hostile(given.problems),
        "accuracy": accuracy,
    }
    for name, table in tables.items():
        if given.only in (None, name):
            print(f"\n## {name}\n")
            table()


if __name__ == "__main__":
    main()
