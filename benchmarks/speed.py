"""`make bench`: what a round costs, against the alternatives, in one run.

Every row is a ratio of two times measured alternately in this process: the least disturbed of a few turns each (whatever
else a shared machine does only ever adds time), and of such ratios the median and the spread. The contestants' iterates are
compared before anything is timed. Prints a table and writes JSON.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from contestants import ClientLoop, Ours, VectorisedNumpy, VectorisedScipy, check_same_iterates
from rich.console import Console
from rich.table import Table
from scipy import sparse
from sklearn.datasets import load_svmlight_file
from threadpoolctl import threadpool_limits

import errorfeedback as ef
from errorfeedback.clients.order import Order
from errorfeedback.compressors.top_k import _track
from errorfeedback.core import Round
from errorfeedback.problems.blocks.base import gather
from errorfeedback.smoothness.constants import Smoothness
from errorfeedback.wire.codebook import Codebook

REPEATS, TURNS = 9, 5


@dataclass(frozen=True)
class Row:
    """One line of the table: `figure` must be at least (or at most) `goal`."""

    workload: str
    against: str
    figure: float
    low: float
    high: float
    goal: float
    at_least: bool
    unit: str = "x"

    @property
    def reached(self) -> bool:
        return self.figure >= self.goal if self.at_least else self.figure <= self.goal


def seconds(call: Callable[[], Any], times: int) -> float:
    begin = time.perf_counter()
    for _ in range(times):
        call()
    return (time.perf_counter() - begin) / times


def undisturbed(*contestants: Callable[[], float], repeats: int = REPEATS, turns: int = TURNS) -> np.ndarray:
    """(repeats, contestants): the shortest times of that many turns."""
    for each in contestants:
        each()
    gc.disable()
    try:
        times = [[[each() for each in contestants] for _ in range(turns)] for _ in range(repeats)]
    finally:
        gc.enable()
    return np.array(times).min(axis=1)


def ratios(a: Callable[[], float], b: Callable[[], float], repeats: int = REPEATS, turns: int = TURNS) -> np.ndarray:
    """a()/b(), measured in turns."""
    times = undisturbed(a, b, repeats=repeats, turns=turns)
    return times[:, 0] / times[:, 1]


def row(workload: str, against: str, samples: np.ndarray, goal: float, at_least: bool, unit: str = "x") -> Row:
    return Row(
        workload, against, float(np.median(samples)), float(samples.min()), float(samples.max()), goal, at_least, unit
    )


def synthetic_rows(c: int, goal_numpy: float, goal_loop: float | None, goal_gradient: float | None) -> list[Row]:
    problem = ef.synthetic(n=100, d=500, m=12, c=c)
    gamma, name = 0.5 / ef.analyse(problem).L, f"synthetic, c/n = {c / 100:g}"
    numpy_round, loop = VectorisedNumpy(problem, gamma), ClientLoop(problem, gamma)
    for rival in (numpy_round, loop):
        check_same_iterates(problem, gamma, rival)
    A, x = problem.A.toarray(), np.ones(problem.d)

    def ours() -> float:
        return Ours(problem, gamma).seconds_per_round(1000)

    rows = [row(name, "vectorised numpy", ratios(lambda: seconds(numpy_round, 200), ours), goal_numpy, True)]
    if goal_loop:
        rows.append(row(name, "per-client numpy loop", ratios(lambda: seconds(loop, 20), ours), goal_loop, True))
    if goal_gradient:
        samples = ratios(ours, lambda: seconds(lambda: A.T @ (A @ x), 200))
        rows.append(row(name, "one gradient (two BLAS gemv)", samples, goal_gradient, False))
    return rows


SYNTHETIC = ((5, 8.0, 30.0, 0.7), (50, 1.8, None, None), (90, 1.2, 4.0, 1.3))
"""c, and the goals against vectorised numpy, a loop over clients, and one gradient."""


def overhead_row() -> Row:
    """`solve` minus the two kernels of its clients."""
    problem = ef.synthetic(n=100, d=500, m=12, c=5)
    blocks, s = problem.blocks, problem.support
    x, earlier = (Ours(problem, 1e-3).run(rounds).x for rounds in (1000, 900))
    u, g, chosen, values = (
        np.ones(s.size),
        problem.gradients_at(earlier),
        np.zeros(problem.n, dtype=np.int64),
        np.ones(problem.n),
    )

    def kernels() -> None:
        blocks.residual(x, problem.shares, problem.target, u)
        _track(g, u, s.indptr, chosen, values)

    ours = lambda: Ours(problem, 1e-3).seconds_per_round(400)  # noqa: E731
    times = undisturbed(ours, lambda: seconds(kernels, 400), turns=2 * TURNS)  # a difference is all noise
    samples = 1e6 * (times[:, 0] - times[:, 1])
    return row("synthetic, c/n = 0.05", "Python overhead of a round", samples, 12.0, False, " us")


def plain_few_bits(g: np.ndarray, grads: np.ndarray, support: Any, coding: Codebook) -> None:
    """What tracking in few bits does, as whole vectors in numpy (its unit is not rounded up)."""
    u = grads - g
    size = np.abs(u)
    unit = np.repeat(np.maximum.reduceat(size, support.indptr[:-1]) / coding.top, support.sizes)
    size /= unit
    if coding.digits == coding.each - 2:
        np.rint(size, out=size)
    else:
        gap = np.ldexp(1.0, np.maximum(np.frexp(size)[1] - 1 - coding.digits, 0))
        size = np.rint(size / gap) * gap
    size *= unit
    g += np.copysign(size, u, out=size)


def few_bits_rows() -> list[Row]:
    """Difference, largest magnitude, rounding and the sum, of 300 clients with 50 to 6,000 features."""
    sizes = np.random.default_rng(0).integers(50, 6000, 300)
    total = int(sizes.sum())
    support = ef.Support(np.concatenate([[0], np.cumsum(sizes)]), np.arange(total), total)
    rows = []
    for compressor, goal in ((ef.PowersOfTwo(4), 20.0), (ef.Uniform(8), 2.0), (ef.SmallFloat(4, 3), 20.0)):
        operator, coding = compressor.on(support), compressor.coding
        g, grads = np.random.default_rng(1).standard_normal((2, total))
        start = g.copy()

        def timed(call: Callable[[], Any], g: np.ndarray = g, start: np.ndarray = start) -> float:
            g[:] = start  # or the differences would soon be zeros
            return seconds(call, 1)

        ours = partial(timed, partial(operator.track, g, grads, Round(1, 0)))
        plain = partial(timed, partial(plain_few_bits, g, grads, support, coding))
        name = f"{compressor}, {total:,} coordinates"
        rows.append(row(name, "vectorised numpy", ratios(plain, ours), goal, True))
        times = 1e9 / total * undisturbed(ours)[:, 0]
        rows.append(row(name, "time per coordinate", times, 1.5, False, " ns"))
    return rows


def free_halves(problem: Any, rounds: int) -> str:
    """What bounds two threads: the clients' part of a round on halves that never wait for each other, and a plain read."""
    method, x, half = ef.EF21(ef.TopK(1)), np.zeros(problem.d), problem.n // 2
    parts = [problem, problem.shard(0, half), problem.shard(half, problem.n)]
    sessions = [ef.Local().open(part, ef.Setup(method.bind(part.support), ef.Whole(), x, commands=False)) for part in parts]
    first, order = (Order(Round(t, 0), x, None) for t in (0, 1))
    for session in sessions:
        session.round(first)
    whole, *halves = [lambda s=s: [s.round(order) for _ in range(rounds)] for s in sessions]
    buffers = [np.ones(2**23) for _ in range(2)]
    reads = [lambda b=b: [b.sum() for _ in range(5)] for b in buffers]

    def side_by_side(jobs: list[Callable[[], Any]]) -> float:
        threads = [Thread(target=job) for job in jobs]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - begin

    clients = ratios(lambda: side_by_side([whole]), lambda: side_by_side(halves))
    memory = ratios(lambda: sum(side_by_side([read]) for read in reads), lambda: side_by_side(reads))
    return (
        f"halves of the clients that never wait for each other are {np.median(clients):.3g}x as fast on two threads "
        f"({clients.min():.3g} to {clients.max():.3g}), and reading memory is {np.median(memory):.3g}x "
        f"({memory.min():.3g} to {memory.max():.3g})"
    )


def a9a_rows() -> tuple[list[Row], str]:
    problem = ef.logistic(*ef.load("a9a"), ef.Shuffled(300), intercept=True)
    gamma, x, z = 0.1 / ef.analyse(problem).L, np.ones(problem.d), np.ones(problem.A.shape[0])
    rival = VectorisedScipy(problem, gamma)
    check_same_iterates(problem, gamma, rival)
    transposed = sparse.csr_array(problem.A.T)
    one = lambda: Ours(problem, gamma).seconds_per_round(100)  # noqa: E731
    two = lambda: Ours(problem, gamma, ef.Threads(2)).seconds_per_round(100)  # noqa: E731
    scipy_round = lambda: seconds(rival, 50)  # noqa: E731
    name = "logistic, a9a, 300 clients"
    return [
        row(name, "vectorised scipy.sparse", ratios(scipy_round, one), 1.3, True),
        row(f"{name}, two threads", "vectorised scipy.sparse", ratios(scipy_round, two), 2.2, True),
        row(
            name,
            "one gradient (two CSR products)",
            ratios(one, lambda: seconds(lambda: (problem.A @ x, transposed @ z), 50)),
            1.0,
            False,
        ),
        row(f"{name}, two threads", "one thread", ratios(one, two), 1.7, True),
        reader_row(),
    ], f"{name}: {free_halves(problem, 100)}"


def reader_row() -> Row:
    path = ef.load("a9a").path
    make = lambda: ef.logistic(*ef.load(path), ef.Shuffled(300), intercept=True)  # noqa: E731
    samples = ratios(lambda: seconds(make, 1), lambda: seconds(lambda: load_svmlight_file(str(path)), 1), 5)
    return row("a9a, file to problem", "scikit-learn's reader alone", samples, 1.5, False)


def large_problem(n: int, d: int, m: int, k: int) -> Any:
    rng = np.random.default_rng(0)
    indices = rng.integers(0, d, n * m * k, dtype=np.int32)
    A = sparse.csr_array((rng.standard_normal(n * m * k), indices, np.arange(0, n * m * k + 1, k)), shape=(n * m, d))
    return ef.least_squares(A, rng.standard_normal(n * m), n)


def large_rows() -> tuple[list[Row], str]:
    """The rows, and what bounds them: the random reads of x alone, timed as the read of the matrix is; and two threads."""
    problem = large_problem(100_000, 1_000_000, 5, 20)
    name = "n = 100,000, d = 1,000,000, 10 M nonzeros"
    stored = problem.blocks.bytes
    buffer = np.ones(stored // 8)
    one = lambda: Ours(problem, 1e-3).seconds_per_round(5)  # noqa: E731
    two = lambda: Ours(problem, 1e-3, ef.Threads(2)).seconds_per_round(5)  # noqa: E731
    rows = [
        row(
            name,
            f"reading the stored {stored / 2**20:.0f} MiB once",
            ratios(one, lambda: seconds(buffer.sum, 3), 5),
            4.0,
            False,
        ),
        row(f"{name}, two threads", "one thread", ratios(one, two, 5), 1.7, True),
    ]

    def constants() -> None:
        s = Smoothness(problem)
        _ = s.L, s.L_i, s.L_plus

    rounds = ratios(lambda: seconds(constants, 1), one, 3, turns=2)
    work, x = np.empty(2**18), np.ones(problem.d)
    features = [problem.blocks.direct[k : k + len(work)] for k in range(0, problem.A.nnz, len(work))]

    def gathers() -> None:
        for part in features:
            gather(part, x, work)

    bare = ratios(lambda: seconds(gathers, 1), lambda: seconds(buffer.sum, 3), 5)
    streams = 1 + (problem.blocks.data.nbytes + 8 * problem.support.size) / stored
    note = (
        f"{name}: gathering x at every entry's feature takes {np.median(bare):.2g} reads "
        f"({bare.min():.2g} to {bare.max():.2g}); reading the values twice (for A x, and for A' s), "
        f"the rest of the matrix and the memory g_i once takes {streams:.2g}; "
        f"{free_halves(problem, 3)}"
    )
    return [*rows, row(f"{name}: L, L_i, L_plus", "rounds' time", rounds, 200.0, False, " rounds")], note


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("benchmarks/speed.json"))
    options = parser.parse_args()
    begin = time.perf_counter()
    rows = [r for goals in SYNTHETIC for r in synthetic_rows(*goals)] + [overhead_row(), *few_bits_rows()]
    console = Console(width=150)
    notes = []
    try:
        found, note = a9a_rows()
        rows, notes = rows + found, [note]
    except FileNotFoundError as error:
        console.print(f"a9a is missing, so its rows are: {error}")
    found, note = large_rows()
    rows, notes = rows + found, [*notes, note]
    table = Table(title="errorfeedback: time of a round, as ratios within this run")
    for column in ("workload", "against", "ours (spread)", "goal", ""):
        table.add_column(column)
    for r in rows:
        figure = f"{r.figure:.3g}{r.unit} ({r.low:.3g} to {r.high:.3g})"
        table.add_row(
            r.workload,
            r.against,
            figure,
            f"{'>=' if r.at_least else '<='} {r.goal:g}{r.unit}",
            "reached" if r.reached else "MISSED",
        )
    console.print(table)
    for note in notes:
        console.print(f"What bounds {note}.")
    missed = sum(not r.reached for r in rows)
    console.print(f"{len(rows) - missed} of {len(rows)} goals reached in {time.perf_counter() - begin:.0f} s")
    machine = {
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "errorfeedback": ef.__version__,
    }
    report = {"machine": machine, "rows": [asdict(r) | {"reached": r.reached} for r in rows], "notes": notes}
    options.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    with threadpool_limits(1):  # one core unless said
        main()
