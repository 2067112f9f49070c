"""The recommender of examples/recommender.py (embeddings of users and items, a small network; every user is a client),
trained three ways: centrally by torch.optim.Adam, through `ef.solve` with few-bit links both ways, and by FedAvg.

    python benchmarks/recommender.py [--users 600] [--items 1500]

Adam and FedAvg have the best of their settings in hindsight, Adam by validation AUC, FedAvg by its bytes. Bytes per client
are those until the test AUC is within half a point of Adam's: all that crosses for EF21 (frames, losses, the first model,
who owns what), and for FedAvg J_i in float32 down and up in every round, nothing else.
"""

from __future__ import annotations

import argparse
import itertools
import runpy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from racing.feedback import TEST, TRAIN, VALID, Feedback, Rows, feedback
from sklearn.metrics import roc_auc_score

import errorfeedback as ef
from errorfeedback.core import Lifted, Model, Point

EXAMPLE = runpy.run_path(str(Path(__file__).parent.parent / "examples" / "recommender.py"))
WITHIN = 0.005
"""Of Adam's test AUC."""
EPOCHS, BATCH = 30, 256
ADAM = list(itertools.product((0.003, 0.01, 0.03), (3e-5, 1e-4, 3e-4)))
"""Learning rates and weight decays."""
LOCAL = [*((5, 3.0, decay) for decay in (3e-4, 6e-4, 1e-3, 1.5e-3)), *((20, 1.0, decay) for decay in (3e-4, 1e-3))]
"""Local steps, their size and their weight decay."""
WORK = 1000
"""Gradients of a client that FedAvg may take."""


Note = tuple[int, float, float, float]
"""A round, bytes up and down per client until then, and the test AUC."""


def module_of(data: Feedback) -> torch.nn.Module:
    """The same start for all."""
    torch.manual_seed(0)
    return EXAMPLE["Recommender"](data.users, data.items).double()


def auc(module: torch.nn.Module, rows: Rows) -> float:
    user, item, liked = rows
    with torch.no_grad():
        return float(roc_auc_score(liked, module(torch.tensor(user), torch.tensor(item)).numpy()))


def adam(data: Feedback, rate: float, decay: float) -> tuple[float, float]:
    """Validation and test AUC of the epoch with the best of the former."""
    module = module_of(data)
    optimizer = torch.optim.Adam(module.parameters(), lr=rate, weight_decay=decay)
    user, item, liked = (torch.tensor(column) for column in data.rows(TRAIN))
    best = (0.0, 0.0)
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(user)).split(BATCH):
            optimizer.zero_grad()
            out = module(user[batch], item[batch])
            torch.nn.functional.binary_cross_entropy_with_logits(out, liked[batch]).backward()
            optimizer.step()
        best = max(best, (auc(module, data.rows(VALID)), auc(module, data.rows(TEST))))
    return best


@dataclass(frozen=True, eq=False)
class Scores(ef.Stop):
    """Never stops; notes the test AUC and the bytes until then, every few rounds."""

    score: Callable[[Model], float]
    noted: list[Note]
    every: int = 5

    def start(self) -> tuple[()]:
        return ()

    def next(self, state: tuple[()], seen: Any) -> tuple[str, tuple[()]]:
        if seen.t % self.every == 0:
            self.noted.append((seen.t, seen.bits / 8, seen.down_bits / 8, self.score(seen.x)))
        return "", ()


def fedavg(problem: Any, steps: int, rate: float, decay: float) -> Iterator[tuple[float, Model]]:
    """The bytes per client each way and the model after every round: local gradient steps on the mean loss of a client's
    rows, and the mean of the changes over the owners of a number, by their rows."""
    s = problem.support
    shares = s.repeat(np.array([client.weight for client in problem.clients]))
    owners = s.scatter(Lifted(shares.copy()))
    x, out = problem.restrict(problem.x0).copy(), Lifted(np.empty(s.size))
    for t in itertools.count(1):
        start = s.gather(x)
        w = start.copy()
        for _ in range(steps):
            problem.gradients(Point(own=Lifted(w)), out)
            w -= rate * (out / shares + decay * w)
        x += s.scatter(Lifted(shares * (w - start))) / owners
        yield 4.0 * t * s.size / s.n, x


def report(data: Feedback) -> Iterator[str]:
    test, module = data.rows(TEST), module_of(data)
    problem = EXAMPLE["problem_of"](module, data.clients())
    yield str(problem)
    yield from rarity(problem)
    central = max(adam(data, *setting) for setting in ADAM)[1]
    goal = central - WITHIN
    yield f"{'':34} test AUC   rounds   bytes up   bytes down (per client, until AUC {goal:.4f})"
    yield f"{'Adam, centrally':34} {central:8.4f}"

    def score(x: Model) -> float:
        ef.torch.load_into(module, problem.extend(x, problem.x0))
        return auc(module, test)

    noted: list[Note] = []
    result = EXAMPLE["train"](module, problem, data.rows(VALID), [Scores(score, noted)])
    ef.torch.load_into(module, result.x)
    ours = auc(module, test)
    yield line("EF21, 4 bits up, fitted steps down", ours, next((note for note in noted if note[-1] >= goal), None))
    up, down = (result.facts()[f"bytes {way} per client"] for way in ("up", "down"))
    yield f"    in all {up:,} bytes up, {down:,} down; {result.stopped}; {result.returned}"
    peer = 0.0
    for steps, rate, decay in LOCAL:
        rounds = itertools.islice(fedavg(problem, steps, rate, decay), WORK // steps)
        best, reached = (0, 0.0, 0.0, 0.0), None
        for t, (sent, x) in enumerate(rounds, 1):
            best = max(best, (t, sent, sent, score(x)), key=lambda note: note[-1])
            if best[-1] >= goal:
                reached = best
                break
        peer = max(peer, best[-1])
        yield line(f"FedAvg, {steps} steps of {rate:g}, decay {decay:g}", best[-1], reached, best)
    yield line("EF21 at FedAvg's best AUC", peer, next((note for note in noted if note[-1] >= peer), None))


def rarity(problem: Any) -> Iterator[str]:
    """c/n of the features that carry an error, of the tables and of the rest."""
    n, counts, common = problem.n, problem.support.counts, np.zeros(problem.d, dtype=bool)
    common[problem.common] = True
    table, dense = counts[~common].max() / n, counts[common].max() / n
    compressor = ef.ExactOnCommon(problem.common, 1)
    rare = ~compressor.exact(problem.support)
    yield f"c/n: tables {table:.3g}, network {dense:.3g}, all {max(table, dense):.3g}"
    yield f"c/n with ExactOnCommon(network): tables {table:.3g}, network 0, all {counts[rare].max() / n:.3g}"


def line(name: str, score: float, reached: Note | None, best: Note | None = None) -> str:
    t, up, down, _ = reached or best or (0, 0.0, 0.0, 0.0)
    return f"{name:34} {score:8.4f}{t:9} {up:10,.0f} {down:12,.0f}{'' if reached else '  not reached: this is its best'}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=600)
    parser.add_argument("--items", type=int, default=1500)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for text in report(feedback(users=options.users, items=options.items, seed=0)):
        print(text, flush=True)
