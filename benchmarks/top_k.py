"""K where nobody names it, against the best K in hindsight: total bytes, and time on four links, to a relative gap.

    ERRORFEEDBACK_DATA=... python benchmarks/top_k.py [--data phishing a9a] [--clients 30 300] [--seed 0] [--level 1e-3]

EF21 with the automatic rule and the step down in as few bits as it allows, for all: what is compared is how many numbers go
up. The best K is the best of 1, 2, 4, ... and all of them, chosen afterwards for every cell; ours is what `train --k auto`
chooses, told the link. Below 1: what every client finds anew in every round beats every fixed K.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from racing.books import LINKS, Link
from racing.data import DATA, problem
from racing.objective import Objective, Vector
from racing.ours import There, as_problem

import errorfeedback as ef
from errorfeedback.compressors.base import Contractive
from errorfeedback.planner.common import powers_of_two
from errorfeedback.planner.top_k_choice import chosen_top_k
from errorfeedback.problems.scaling import Scaled

MOST = 1000
SETS = ("phishing", "a9a", "mushrooms", "w5a")


@dataclass(frozen=True)
class Spent:
    """What a run took to get there: rounds, bits of all clients up and down, and the slowest client's part of each."""

    rounds: int
    up: float
    down: float
    up_part: float
    down_part: float
    n: int

    def on(self, link: Link | None) -> float:
        """kB of a client on average, or seconds of the slowest."""
        if link is None:
            return (self.up + self.down) / 8e3 / self.n
        trips = 2 * link.latency * (self.rounds + 1)
        return trips + self.up * self.up_part / link.up + self.down * self.down_part / link.down


@dataclass(frozen=True, eq=False)
class Shared:
    """A data set that so many clients share."""

    objective: Objective
    level: float

    @cached_property
    def scaled(self) -> tuple[Scaled, ef.ElasticNet]:
        return as_problem(self.objective, power=1.0)

    @cached_property
    def sizes(self) -> Vector:
        return self.scaled[0].support.sizes.astype(np.float64)

    def spent(self, compressor: Contractive, up_parts: Vector) -> Spent | None:
        """None: it does not get there in time."""
        made, prox = self.scaled
        run = ef.solve(
            made,
            ef.EF21(compressor),
            ef.Automatic(),
            downlink=ef.FittedStep(),
            rounds=MOST,
            prox=prox,
            stop=[There(made, prox, self.objective.level(self.level))],
            metrics=False,
        )
        if run.stopped != "there":
            return None
        up, down = (float(run.history[name][-1]) for name in ("uplink_bits", "downlink_bits"))
        parts = [float(each.max() / each.sum()) for each in (up_parts, self.sizes)]
        return Spent(run.rounds, up, down, parts[0], parts[1], made.n)

    @cached_property
    def fixed(self) -> dict[int, Spent]:
        """By K."""
        r = self.scaled[0].support.r
        runs = {k: self.spent(ef.TopK(k), np.minimum(k, self.sizes)) for k in [*powers_of_two(r), r]}
        return {k: run for k, run in runs.items() if run is not None}

    def ours(self, link: Link | None) -> tuple[float, Spent | None]:
        """The share that is chosen for the link, and what came of it."""
        support = self.scaled[0].support
        networks = None if link is None else [ef.Network(link.up, link.down, link.latency)] * support.n
        compressor = chosen_top_k(support, networks, smooth=True).method.compressor
        assert isinstance(compressor, ef.TopShare)
        return compressor.share, self.spent(compressor, self.sizes)


def row(shared: Shared, link: Link | None) -> tuple[str, float]:
    """A line of the table, and its ratio."""
    share, ours = shared.ours(link)
    best = min(shared.fixed, key=lambda k: shared.fixed[k].on(link))
    price = shared.fixed[best].on(link)
    mine = np.inf if ours is None else ours.on(link)
    words = [
        "kB" if link is None else f"s on {link.name}",
        f"{best} ({shared.fixed[best].rounds} rounds)",
        f"{price:.3g}",
        f"{share:.2f} ({'-' if ours is None else ours.rounds} rounds)",
        f"{mine:.3g}",
        f"{mine / price:.2f}",
        *(f"{shared.fixed[k].on(link) / price:.2f}" if k in shared.fixed else "-" for k in (1, shared.scaled[0].support.r)),
    ]
    return " | ".join(words), mine / price


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--data", nargs="+", choices=DATA, default=list(SETS))
    words.add_argument("--clients", nargs="+", type=int, default=[30, 300], help="0: those that the data has")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--level", type=float, default=1e-3)
    asked = words.parse_args()
    print("| data, clients | what | best K | its price | our share | our price | ratio | K = 1 | all |\n" + 9 * "|---" + "|")
    ratios = []
    for name in asked.data:
        for n in asked.clients:
            shared = Shared(problem(name, seed=asked.seed, n=n or None), asked.level)
            for link in (None, *LINKS):
                line, ratio = row(shared, link)
                ratios.append(ratio)
                print(f"| {name}, {shared.scaled[0].n} | {line} |", flush=True)
    print(f"\nRatios: median {np.median(ratios):.2f}, largest {max(ratios):.2f}")


if __name__ == "__main__":
    main()
