"""The recommender of examples/recommender.py (embeddings of users and items, a small network; every user is a client):
through `ef.solve` with few-bit links both ways, against the same module trained centrally by torch.optim.Adam, and FedAvg.

    python benchmarks/recommender.py --choose    # settings, by the mean validation AUC on data of the seeds 0 to 7
    python benchmarks/recommender.py             # what they give on fresh data, of the seeds 20 to 29, by the test AUC

Every run returns its point with the best validation AUC. The step and the penalty of the run across devices are chosen with
the same AdaGrad in one place and in full precision, which takes seconds: compression has no setting to choose. Bytes per
client are those until the test AUC is within half a point of Adam's: all that crosses for EF21 (frames, losses, the first
model, who owns what), and for FedAvg J_i in float32 down and up in every round, nothing else; it has the best of its
settings in hindsight.
"""

from __future__ import annotations

import argparse
import itertools
import runpy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from racing.central_training import Scores, adagrad, adam, auc
from racing.feedback import TEST, VALID, Feedback, feedback

import errorfeedback as ef
from errorfeedback.core import Lifted, Model, Point

EXAMPLE = runpy.run_path(str(Path(__file__).parent.parent / "examples" / "recommender.py"))
CHOICE, JUDGED = range(8), range(20, 30)
"""Seeds of the data that settings are chosen on, and of those that they are judged by."""
WITHIN = 0.005
"""Of Adam's test AUC."""
ADAM = list(itertools.product((0.002, 0.003, 0.01), (1e-4, 1.5e-4, 2e-4, 2.5e-4, 4e-4)))
"""Learning rates and weight decays."""
ADAGRAD = list(itertools.product((0.1, 0.2, 0.3, 0.5), (1e-4, 1.5e-4, 2e-4, 2.5e-4, 4e-4)))
"""Step sizes and penalties l2; the choice is in the example (docs/own-model.md says which pairs it was made from)."""
BEST_ADAM = [(0.003, 1.5e-4), (0.01, 1.5e-4)]
"""The former was the best on the seeds of the choice; slow rates may stand at the zero model for all of a run, so Adam has the
better of both by the validation rows of each data set."""
LOCAL = [*((5, 3.0, decay) for decay in (3e-4, 6e-4, 1e-3, 1.5e-3)), *((20, 1.0, decay) for decay in (3e-4, 1e-3))]
"""FedAvg's local steps, their size and their weight decay."""
WORK = 1000
"""Gradients of a client that FedAvg may take."""

Note = tuple[int, float, float, float]
"""A round, bytes up and down per client until then, and the test AUC."""


def data_of(seed: int, options: argparse.Namespace) -> Feedback:
    return feedback(users=options.users, items=options.items, seed=seed)


def module_of(data: Feedback) -> torch.nn.Module:
    """The same start for all."""
    torch.manual_seed(0)
    return EXAMPLE["Recommender"](data.users, data.items).double()


def choose(made: Sequence[Feedback]) -> Iterator[str]:
    """The mean validation AUC of every setting."""

    def mean(train: Callable[[Feedback], Scores]) -> float:
        return float(np.mean([train(data)[0] for data in made]))

    for rate, decay in ADAM:
        score = mean(lambda data, rate=rate, decay=decay: adam(module_of(data), data, rate, decay))
        yield f"Adam, rate {rate:g}, decay {decay:g}: {score:.4f}"
    for rate, l2 in ADAGRAD:
        score = mean(lambda data, rate=rate, l2=l2: adagrad(module_of(data), data, rate, l2))
        yield f"AdaGrad on all rows, step {rate:g}, l2 {l2:g}: {score:.4f}"


@dataclass(frozen=True, eq=False)
class Noting(ef.Stop):
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


@dataclass(frozen=True, eq=False)
class Judged:
    """One data set: Adam's test AUC, that of EF21, and what EF21 had at every few rounds."""

    data: Feedback
    central: float
    ours: float
    noted: list[Note]
    problem: Any
    score: Callable[[Model], float]
    """The test AUC of a model."""

    @property
    def goal(self) -> float:
        return self.central - WITHIN


def judge(data: Feedback) -> Judged:
    central, module = max(adam(module_of(data), data, *setting) for setting in BEST_ADAM)[1], module_of(data)
    problem = EXAMPLE["problem_of"](module, data.clients())
    noted: list[Note] = []

    def score(x: Model) -> float:
        ef.torch.load_into(module, problem.extend(x, problem.x0))
        return auc(module, data.rows(TEST))

    result = EXAMPLE["train"](module, problem, data.rows(VALID), [Noting(score, noted)])
    ef.torch.load_into(module, result.x)
    return Judged(data, central, auc(module, data.rows(TEST)), noted, problem, score)


def report(seeds: Sequence[int], options: argparse.Namespace) -> Iterator[str]:
    gaps = []
    for seed in seeds:
        judged = judge(data_of(seed, options))
        if not gaps:
            yield str(judged.problem)
            yield from rarity(judged.problem)
            yield f"{'':31} test AUC   rounds   bytes up   bytes down (per client, until half a point below Adam)"
        gaps.append(100 * (judged.central - judged.ours))
        yield f"{f'seed {seed}: Adam, centrally':31} {judged.central:8.4f}"
        yield line("  EF21, 6 bits up and down", judged.ours, reached(judged.noted, judged.goal), judged.noted[-1])
        if options.fedavg > len(gaps) - 1:
            yield from peers(judged)
    error = np.std(gaps, ddof=1) / len(gaps) ** 0.5 if len(gaps) > 1 else np.nan
    yield f"EF21 is {np.mean(gaps):.2f} points of AUC below Adam on average, standard error {error:.2f}"


def peers(judged: Judged) -> Iterator[str]:
    """FedAvg, each setting until it is as good as asked."""
    for steps, rate, decay in LOCAL:
        rounds = itertools.islice(fedavg(judged.problem, steps, rate, decay), WORK // steps)
        noted: list[Note] = []
        for t, (sent, x) in enumerate(rounds, 1):
            noted.append((t, sent, sent, judged.score(x)))
            if noted[-1][-1] >= judged.goal:
                break
        best = max(noted, key=lambda note: note[-1])
        yield line(f"  FedAvg, {steps} x {rate:g}, decay {decay:g}", best[-1], reached(noted, judged.goal), best)
        yield line("  EF21 at that AUC", best[-1], reached(judged.noted, best[-1]), judged.noted[-1])


def reached(noted: Sequence[Note], goal: float) -> Note | None:
    return next((note for note in noted if note[-1] >= goal), None)


def rarity(problem: Any) -> Iterator[str]:
    """c/n of the features that carry an error, of the tables and of the rest."""
    n, counts, common = problem.n, problem.support.counts, np.zeros(problem.d, dtype=bool)
    common[problem.common] = True
    table, dense = counts[~common].max() / n, counts[common].max() / n
    compressor = ef.ExactOnCommon(problem.common, 1)
    rare = ~compressor.exact(problem.support)
    yield f"c/n: tables {table:.3g}, network {dense:.3g}, all {max(table, dense):.3g}"
    yield f"c/n with ExactOnCommon(network): tables {table:.3g}, network 0, all {counts[rare].max() / n:.3g}"


def line(name: str, score: float, at: Note | None, otherwise: Note) -> str:
    t, up, down, _ = at or otherwise
    return f"{name:31} {score:8.4f}{t:9} {up:10,.0f} {down:12,.0f}{'' if at else '  not reached'}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=600)
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--seeds", type=int, nargs="+", default=list(JUDGED))
    parser.add_argument("--fedavg", type=int, default=1, help="on how many of these seeds FedAvg runs too")
    parser.add_argument("--choose", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    said = choose([data_of(seed, options) for seed in CHOICE]) if options.choose else report(options.seeds, options)
    for text in said:
        print(text, flush=True)
