"""What `ef.torch.hook` sends, takes and reaches in DDP, beside all-reduce, sparse all-gather and PowerSGD. Prints a table.

    python benchmarks/ddp.py                                       # two processes on loopback
    unshare -n sh -c 'ip link set lo up && tc qdisc add dev lo root tbf rate 100mbit burst 256kb latency 400ms &&
        python benchmarks/ddp.py'                                  # on a link of 100 Mbit/s that both share (as root)

One model, one optimiser, the same minibatches: an embedding table and a small network that learn clicks. Bytes are those
that went over the loopback interface, TCP and all, by process and step; time is the median of a backward pass, which
synchronises. Contestants take turns, step by step, so that whatever else the machine does disturbs all of them alike.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power_sgd
from torch.nn.parallel import DistributedDataParallel

import errorfeedback as ef

RANKS, WARM = 2, 5
WIDTH, HIDDEN, BAG, BATCH = 16, 64, 20, 512
LOSS = nn.BCEWithLogitsLoss()
OPTIMISERS = {"Adagrad": partial(torch.optim.Adagrad, lr=0.05), "SGD": partial(torch.optim.SGD, lr=2.0)}


class Clicks(nn.Module):
    """A table of items, summed over a visitor's bag of them, and a small network."""

    def __init__(self, rows: int, sparse: bool) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(rows, WIDTH, mode="sum", sparse=sparse)
        nn.init.normal_(self.table.weight, std=0.05)
        self.network = nn.Sequential(nn.Linear(WIDTH, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))

    def forward(self, items: torch.Tensor) -> torch.Tensor:
        return self.network(self.table(items)).squeeze(1)


class Visits:
    """Bags of items, some popular and most rare, and clicks by a hidden score of every item; keyed by process and step."""

    def __init__(self, rows: int) -> None:
        draw = np.random.default_rng(0)
        popularity = 1.0 / np.arange(1, rows + 1) ** 0.9
        self.ends, self.scores = np.cumsum(popularity / popularity.sum()), draw.normal(size=rows) / np.sqrt(BAG) * 2

    def batch(self, rank: int, t: int, size: int = BATCH) -> tuple[torch.Tensor, torch.Tensor]:
        draw = np.random.default_rng((1, rank, t))
        items = np.minimum(np.searchsorted(self.ends, draw.random((size, BAG))), len(self.ends) - 1)
        clicked = draw.random(size) < 1.0 / (1.0 + np.exp(-self.scores[items].sum(1)))
        return torch.from_numpy(items), torch.from_numpy(clicked.astype(np.float32))


@dataclass(frozen=True)
class Contestant:
    name: str
    sparse: bool
    register: Callable[[DistributedDataParallel], object]


def few(k: int) -> ef.Compressor:
    return ef.Rounded(ef.TopK(k), ef.PowersOfTwo(4, block=256))


def contestants(k: int) -> list[Contestant]:
    def hook(name: str, method: ef.Method) -> Contestant:
        return Contestant(name, True, lambda ddp: ef.torch.hook(ddp, method))

    def rank_1(ddp: DistributedDataParallel) -> None:
        state = power_sgd.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2, min_compression_rate=1)
        ddp.register_comm_hook(state, power_sgd.powerSGD_hook)

    return [
        Contestant("all-reduce", False, lambda ddp: None),
        Contestant("PowerSGD, rank 1", False, rank_1),
        Contestant("`sparse=True`, no hook", True, lambda ddp: None),
        hook(f"EF21, Top{k}", ef.EF21(ef.TopK(k), "compressed")),
        hook(f"EF21-SGDM 0.1, Top{k}", ef.EF21SGDM(ef.TopK(k), eta=0.1)),
        hook(f"EF14, Top{k}", ef.EF14(ef.TopK(k))),
        hook(f"EF14, Top{k // 10}", ef.EF14(ef.TopK(k // 10))),
        hook(f"EF14, Top{k} in 4 bits", ef.EF14(few(k))),
    ]


def on_loopback() -> int:
    """Bytes that went over it so far."""
    line = next(line for line in Path("/proc/net/dev").read_text().splitlines() if line.strip().startswith("lo:"))
    return int(line.split(":")[1].split()[0])


class Run:
    """A contestant in training: seconds and bytes of every step."""

    def __init__(self, contestant: Contestant, rows: int, optimiser: str) -> None:
        torch.manual_seed(0)
        self.name = contestant.name
        self.ddp = DistributedDataParallel(Clicks(rows, contestant.sparse))
        self.hook = contestant.register(self.ddp)
        self.optimiser = OPTIMISERS[optimiser](self.ddp.parameters())
        self.seconds: list[float] = []
        self.bytes: list[int] = []
        self.losses: list[float] = []

    def step(self, items: torch.Tensor, clicked: torch.Tensor) -> None:
        self.optimiser.zero_grad()
        loss = LOSS(self.ddp(items), clicked)
        dist.barrier()
        before, begin = on_loopback(), perf_counter()
        loss.backward()
        self.seconds.append(perf_counter() - begin)
        dist.barrier()
        self.bytes.append(on_loopback() - before)
        self.optimiser.step()

    def look(self, items: torch.Tensor, clicked: torch.Tensor) -> None:
        with torch.no_grad():
            self.losses.append(LOSS(self.ddp.module(items), clicked).item())

    def __str__(self) -> str:
        sent, seconds = np.mean(self.bytes[WARM:]) / RANKS, np.median(self.seconds[WARM:])
        own = f"{self.hook.bytes_sent / len(self.bytes) / 1e3:,.1f}" if isinstance(self.hook, ef.torch.Hook) else ""
        losses = " | ".join(f"{loss:.4f}" for loss in self.losses)
        return f"| {self.name} | {sent / 1e3:,.1f} | {own} | {1e3 * seconds:.0f} | {losses} |"


def work(rank: int, given: argparse.Namespace, store: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    visits, marks = Visits(given.rows), [given.steps // 4, given.steps // 2, given.steps]
    runs = [Run(contestant, given.rows, given.optimiser) for contestant in contestants(given.k)]
    held_out = visits.batch(RANKS, 0, 20_000)
    for t in range(1, given.steps + 1):
        batch = visits.batch(rank, t)
        for run in runs:
            run.step(*batch)
            if t in marks:
                run.look(*held_out)
    if rank == 0:
        print(
            f"| {given.optimiser} | kB a step | of them messages | ms | " + " | ".join(f"loss at {t}" for t in marks) + " |"
        )
        print("\n".join(["|---" * (4 + len(marks)) + "|", *map(str, runs)]))
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--k", type=int, default=4_000)
    parser.add_argument("--optimiser", choices=list(OPTIMISERS), default="Adagrad")
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, (parser.parse_args(), f"{folder}/store"), nprocs=RANKS)


if __name__ == "__main__":
    main()
