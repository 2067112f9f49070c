"""Two checkouts of this repository, timed in turns: `python benchmarks/side_by_side.py OLD NEW`.

A process per checkout does each workload of `make bench` when it is asked to, one right after the other. Whatever else the
machine does only ever adds time, so that of every workload the shortest times are compared: of a few turns each, and of
such ratios (old/new: above 1 the new one is quicker) the median and the spread. Prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

GOAL = 0.95
WORKLOADS = {
    "synthetic, c/n = 0.05": "synthetic(5, 60)",
    "synthetic, c/n = 0.5": "synthetic(50, 15)",
    "synthetic, c/n = 0.9": "synthetic(90, 10)",
    "logistic, a9a, 300 clients": "a9a(5)",
    "logistic, a9a, two threads": "a9a(5, ef.Threads(2))",
    "a9a, file to problem": "reading()",
    "n = 100,000, 10 M nonzeros": "large(2)",
    "n = 100,000, two threads": "large(2, ef.Threads(2))",
    "n = 100,000: L, L_i, L_plus": "constants()",
}
"""What the process of a checkout is asked for: a function that takes no argument and returns seconds."""
WORKER = """
import contextlib, sys
from functools import cache
import errorfeedback as ef
from contestants import Ours
from errorfeedback.smoothness.constants import Smoothness
from speed import large_problem, overhead_row, seconds
from threadpoolctl import threadpool_limits

a9a_problem = cache(lambda: ef.logistic(*ef.load("a9a"), ef.Shuffled(300), intercept=True))
large_one = cache(lambda: large_problem(100_000, 1_000_000, 5, 20))

def rounds(problem, gamma, count, engine=None):
    ours = Ours(problem, gamma) if engine is None else Ours(problem, gamma, engine)
    return lambda: ours.seconds_per_round(count)

def synthetic(c, count):
    problem = ef.synthetic(n=100, d=500, m=12, c=c)
    return rounds(problem, 0.5 / ef.analyse(problem).L, count)

def a9a(count, engine=None):
    return rounds(a9a_problem(), 0.1 / ef.analyse(a9a_problem()).L, count, engine)

def large(count, engine=None):
    return rounds(large_one(), 1e-3, count, engine)

def reading():
    path = ef.load("a9a").path
    return lambda: seconds(lambda: ef.logistic(*ef.load(path), ef.Shuffled(300), intercept=True), 1)

def constants():
    def all_three():
        s = Smoothness(large_one())
        s.L, s.L_i, s.L_plus
    return lambda: seconds(all_three, 1)

def overhead():
    return lambda: overhead_row().figure

answers, made = sys.stdout, {}
with threadpool_limits(1), contextlib.redirect_stdout(sys.stderr):
    for line in sys.stdin:
        asked = line.strip()
        if asked not in made:
            made[asked] = eval(asked)
            made[asked]()
        print(made[asked](), file=answers, flush=True)
"""


class Checkout:
    """A process that works with the code of one checkout."""

    def __init__(self, folder: Path) -> None:
        paths = os.pathsep.join(str(folder / name) for name in ("src", "benchmarks"))
        command = [sys.executable, "-c", WORKER]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": paths}
        )

    def __call__(self, asked: str) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(asked, file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())


def compared(old: Checkout, new: Checkout, asked: str, repeats: int, turns: int) -> dict[str, Any]:
    """The shortest times, and the ratios of the shortest of `turns` turns."""
    times = np.array([[[each(asked) for each in (old, new)] for _ in range(turns)] for _ in range(repeats)])
    least = times.min(axis=1)
    ratios = least[:, 0] / least[:, 1]
    shortest = dict(zip(("old", "new"), times.min(axis=(0, 1)).tolist(), strict=True))
    return {**shortest, "ratio": float(np.median(ratios)), "low": float(ratios.min()), "high": float(ratios.max())}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", default="", help="a word that a workload's name must have")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    old, new = (Checkout(folder.resolve()) for folder in (options.old, options.new))
    rows = {}
    table = Table(title="time of the old checkout / time of the new one")
    for column in ("workload", "old", "new", "median of ratios (spread)", "shortest / shortest", f">= {GOAL}"):
        table.add_column(column)
    for name, asked in WORKLOADS.items():
        if options.only in name:
            row = rows[name] = compared(old, new, asked, options.repeats, options.turns)
            best = row["old"] / row["new"]
            spread = f"{row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f})"
            times = [f"{1e6 * row[key]:,.1f} us" for key in ("old", "new")]
            verdict = "reached" if max(best, row["ratio"]) >= GOAL else "MISSED"
            table.add_row(name, *times, spread, f"{best:.3f}", verdict)
    console = Console(width=150)
    console.print(table)
    python = [min(each("overhead()") for _ in range(2)) for each in (old, new)]
    console.print(f"Python per round: {python[0]:.2f} us before, {python[1]:.2f} us now")
    if options.json:
        options.json.write_text(json.dumps({"rows": rows, "python": python}, indent=1))


if __name__ == "__main__":
    main()
