"""`make scaling`: time per round against nonzeros, and against n at fixed nonzeros; memory per nonzero.

Random least squares, 20 nonzeros per row, 5 rows per client, d = nonzeros/10, one core. Writes docs/scaling.*.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from contestants import Ours
from speed import large_problem
from threadpoolctl import threadpool_limits

PER_ROW, ROWS = 20, 5


@dataclass(frozen=True)
class Point:
    """One problem: its size, the time of a round and what it takes in memory."""

    nonzeros: int
    n: int
    d: int
    microseconds: float
    bytes_per_nonzero: float


def measure(nonzeros: int, n: int, d: int) -> Point:
    """The best of three: anything above it is somebody else's time."""
    m = nonzeros // (PER_ROW * n)
    problem = large_problem(n, d, m, PER_ROW)
    rounds = max(3, min(300, 3 * 10**7 // nonzeros))
    best = min(Ours(problem, 1e-3).seconds_per_round(rounds) for _ in range(3))
    stored = problem.blocks.bytes + 8 * problem.support.size  # rows, J_i, and the state g_i
    return Point(problem.A.nnz, n, d, best * 1e6, stored / problem.A.nnz)


def draw(by_size: list[Point], by_clients: list[Point], out: Path) -> None:
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    sizes, times = np.array([p.nonzeros for p in by_size]), np.array([p.microseconds for p in by_size])
    left.loglog(sizes, times, "o-", label="a round of EF21 + Top1")
    left.loglog(sizes, times[-1] / sizes[-1] * sizes, ":", color="0.5", label="linear in nonzeros")
    left.set(xlabel="nonzeros", ylabel="microseconds per round", title="d = nonzeros / 10, n = nonzeros / 100")
    left.legend()
    clients = np.array([p.n for p in by_clients])
    middle.loglog(clients, [p.microseconds for p in by_clients], "s-", color="C1", label="a round of EF21 + Top1")
    first = by_clients[0]
    middle.loglog(clients, first.microseconds * clients / clients[0], ":", color="0.5", label="linear in n (n x d memory)")
    middle.set(xlabel="clients n", ylabel="microseconds per round", title=f"{first.nonzeros:.0e} nonzeros, d = {first.d:,}")
    middle.set_ylim(first.microseconds / 10, first.microseconds * 100)
    middle.legend()
    memory = [p.bytes_per_nonzero for p in by_size]
    right.semilogx(sizes, memory, "o-", color="C2")
    right.set(xlabel="nonzeros", ylabel="bytes per nonzero", title="rows, supports and state", ylim=(0, 1.2 * max(memory)))
    figure.savefig(out / "scaling.png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs"))
    parser.add_argument("--largest", type=float, default=1e8, help="nonzeros of the largest problem")
    options = parser.parse_args()
    sizes = [int(s) for s in 10 ** np.arange(4, np.log10(options.largest) + 0.25, 0.5)]
    by_size = [measure(s, s // (PER_ROW * ROWS), s // 10) for s in sizes]
    by_clients = [measure(10**6, n, 10**5) for n in (10, 100, 1000, 10_000, 50_000)]
    record: dict[str, Any] = {"by_size": [asdict(p) for p in by_size], "by_clients": [asdict(p) for p in by_clients]}
    options.out.mkdir(exist_ok=True)
    (options.out / "scaling.json").write_text(json.dumps(record, indent=1))
    draw(by_size, by_clients, options.out)
    for p in by_size + by_clients:
        size = f"{p.nonzeros:>11,} nonzeros  n = {p.n:>9,}  d = {p.d:>11,}"
        each = f"{1e3 * p.microseconds / p.nonzeros:.2f} ns and {p.bytes_per_nonzero:.1f} B each"
        print(f"{size}  {p.microseconds:>11,.1f} us  {each}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
