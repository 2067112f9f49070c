"""`make mpi`: what a round costs over MPI, ranks x problem size, and what that means for 1,000 nodes. Writes docs/mpi.md.

overhead = time of a round - time of the slowest shard's own work, both the best of many chunks of rounds (the machine may be
busy with other things). Cost model, fitted to what is measured here:
    T(P) = compute nonzeros/P + latency ceil(log2 P) + (P - 1) (latency + answer) + bytes_up (1/bandwidth + unpack)
(the command goes down a tree; the server takes the answers one after the other, `answer` seconds each, whatever is in them).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from math import ceil, log2
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import errorfeedback as ef
from errorfeedback.clients.order import Order
from errorfeedback.core import Round
from errorfeedback.engines.channel import receive
from errorfeedback.wire.codec import NOTHING_BESIDE, decode, encode
from errorfeedback.wire.message import NOWHERE

SIZES = {"n=100, d=500": (100, 500, 12, 25), "n=200, d=1000": (200, 1000, 12, 50), "n=400, d=2000": (400, 2000, 12, 50)}
CHUNKS, ROUNDS = 200, 5
NODES = (10, 100, 1000)
BEGIN = "MEASURED "


def best(job: Any, chunks: int = CHUNKS, rounds: int = ROUNDS) -> float:
    """Seconds per call: the best of many chunks."""
    times = []
    for _ in range(chunks):
        begin = perf_counter()
        for _ in range(rounds):
            job()
        times.append(perf_counter() - begin)
    return min(times) / rounds


def measure(name: str) -> None:
    """On every rank; rank 0 prints."""
    n, d, m, c = SIZES[name]
    problem, method = ef.synthetic(n=n, d=d, m=m, c=c), ef.EF21(ef.TopK(1))
    engine = ef.MPI()
    world = engine.world
    x = np.zeros(problem.d)
    session = engine.open(problem, ef.Setup(method, ef.Whole(), x, commands=False))
    part = session.own if isinstance(session, ef.RemoteSession) else session.host.part
    first, order = (Order(Round(t, 0), x, ef.Broadcast(x)) for t in (0, 1))
    part.round(first)
    own = np.zeros(1)
    for rank in range(world.size):  # one after the other, so that they do not take each other's core
        token = np.zeros(1, dtype=np.uint8)
        if rank == world.rank:
            own[0] = best(lambda: part.round(order))
            for other in set(range(world.size)) - {rank}:
                world.Send(token, other)
        else:
            receive(world, rank)
    slowest = np.zeros(1)
    from mpi4py.MPI import MAX  # noqa: PLC0415

    world.Allreduce(own, slowest, MAX)
    latency, bandwidth = link(world)
    if isinstance(session, ef.RemoteSession):
        whole = session.carry(lambda: (session.round(first), best(lambda: session.round(order)))[1])
        up = ef.solve(problem, method, ef.Constant(1e-9), rounds=1, every=1).history["uplink_bits"][-1] // 8
        row = {
            "problem": name,
            "ranks": world.size,
            "nonzeros": int(problem.A.nnz),
            "round": whole,
            "shard": float(slowest[0]),
            "overhead": whole - float(slowest[0]),
            "bytes_up": int(up),
            "latency": latency,
            "bandwidth": bandwidth,
            **unpacking(problem, method),
        }
        print(BEGIN + json.dumps(row), flush=True)
    else:
        session.carry(lambda: None)
    session.close()


def unpacking(problem: Any, method: ef.EF21) -> dict[str, float]:
    """Seconds that the server takes for an answer, and for a byte of it."""
    seconds, size = [], []
    for part in (problem.shard(0, 1), problem):
        operator, ctx, support = method.compressor.on(part.support), Round(1, 0), part.support
        known = operator.known(ctx)
        frames = encode(operator(part.gradients_at(np.ones(part.d)), ctx), known, ctx, NOTHING_BESIDE, NOWHERE)
        seconds.append(best(lambda f=frames, k=known, s=support, c=ctx: decode(f, k, s, c, problem.dtype)))
        size.append(len(frames))
    return {"answer": seconds[0], "unpack": (seconds[1] - seconds[0]) / (size[1] - size[0])}


def link(world: Any) -> tuple[float, float]:
    """Half a round trip of one byte, and bytes per second of a megabyte, between ranks 0 and 1."""
    if world.size == 1:
        return 0.0, float("inf")
    small, large = np.zeros(1, dtype=np.uint8), np.zeros(2**20, dtype=np.uint8)

    def trip(buffer: Any) -> None:
        if world.rank == 0:
            world.Send(buffer, 1)
            receive(world, 1)
        elif world.rank == 1:
            receive(world, 0)
            world.Send(small, 0)

    slow = best(lambda: trip(small)) / 2
    return slow, 2**20 / (best(lambda: trip(large), 10, 10) - 2 * slow)


def fitted(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The constants of the cost model: the least disturbed of each."""
    pairs = [r for r in rows if r["ranks"] > 1]
    return {
        "compute": min(r["shard"] / r["nonzeros"] for r in rows if r["ranks"] == 1),
        "latency": min(r["latency"] for r in pairs),
        "answer": min(r["answer"] for r in rows),
        "bandwidth": max(r["bandwidth"] for r in pairs),
        "unpack": min(r["unpack"] for r in rows),
    }


def constants(rows: list[dict[str, Any]]) -> list[str]:
    k = fitted(rows)
    return [
        f"compute {1e9 * k['compute']:.2f} ns a nonzero, latency {1e6 * k['latency']:.1f} us, answer "
        f"{1e6 * k['answer']:.1f} us, bandwidth {k['bandwidth'] / 1e9:.1f} GB/s, unpack {1e9 * k['unpack']:.1f} ns a byte.",
    ]


def predict(rows: list[dict[str, Any]], nodes: int) -> dict[str, float]:
    """The largest problem on that many nodes, by the cost model."""
    k, largest = fitted(rows), max(rows, key=lambda r: r["nonzeros"])
    parts = {
        "compute": k["compute"] * largest["nonzeros"] / nodes,
        "latency": k["latency"] * ceil(log2(nodes)) + (nodes - 1) * (k["latency"] + k["answer"]),
        "bytes": largest["bytes_up"] * (1 / k["bandwidth"] + k["unpack"]),
    }
    return {"nodes": nodes, **parts, "round": sum(parts.values())}


def report(rows: list[dict[str, Any]], out: Path) -> None:
    """The table and the extrapolation."""
    us = 1e6
    lines = [
        "# What a round costs over MPI",
        "",
        "Written by `benchmarks/mpi.py`; EF21 with Top1, least squares; times in microseconds, the best of "
        f"{CHUNKS} chunks of {ROUNDS} rounds. The machine has {os.cpu_count()} cores, and its load was "
        f"{os.getloadavg()[2]:.1f} in the quarter of an hour before: ranks that wait for a core make all beyond one "
        "rank slower than it is on a quiet machine, and more ranks than cores always do.",
        "*shard* is the slowest rank's own work, *overhead* is everything else: broadcast, answers, packing, unpacking.",
        "",
        "| problem | ranks | round | shard | overhead | bytes up |",
        "|---|---|---|---|---|---|",
        *(
            f"| {r['problem']} | {r['ranks']} | {us * r['round']:.0f} | {us * r['shard']:.0f} | "
            f"{us * r['overhead']:.0f} | {r['bytes_up']} |"
            for r in rows
        ),
        "",
        "## More nodes",
        "",
        "    T(P) = compute nonzeros/P + latency ceil(log2 P)",
        "           + (P - 1) (latency + answer) + bytes_up (1/bandwidth + unpack)",
        "",
        "with the constants measured on one machine (shared memory; a network has a larger latency: put it in), for the "
        "largest problem of the table. The server takes the answers one by one, so that its time grows with P.",
        "",
        *constants(rows),
        "",
        "| nodes | compute | latency | bytes | round |",
        "|---|---|---|---|---|",
    ]
    for nodes in NODES:
        p = predict(rows, nodes)
        lines.append(
            "| " + " | ".join([str(nodes), *(f"{us * p[k]:.0f}" for k in ("compute", "latency", "bytes", "round"))]) + " |"
        )
    out.mkdir(exist_ok=True)
    (out / "mpi.md").write_text("\n".join(lines) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rank", metavar="PROBLEM", help="measure on the ranks of this job")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--out", type=Path, default=Path("docs"))
    given = parser.parse_args()
    if given.rank:
        measure(given.rank)
        return
    rows = []
    mpiexec = str(Path(sys.executable).with_name("mpiexec"))
    for name in SIZES:
        for ranks in given.ranks:
            command = [mpiexec, "-n", str(ranks), sys.executable, __file__, "--rank", name]
            done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
            row = next(json.loads(line[len(BEGIN) :]) for line in done.stdout.splitlines() if line.startswith(BEGIN))
            print({k: v if isinstance(v, (str, int)) else f"{v:.3g}" for k, v in row.items()}, flush=True)
            rows.append(row)
    report(rows, given.out)


if __name__ == "__main__":
    main()
